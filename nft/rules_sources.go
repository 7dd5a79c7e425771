package nft

import (
	"cmp"
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// The sources that may use a restricted frontend, or may not, are prefixes. They are in sets of
// addresses, one set for each length of prefix in use, and a packet's source is cut to
// that length before it is looked up:
//
//	set allowed-sources-24  { ip saddr . ip daddr . meta l4proto . th dport }
//	                        10.1.2.0 . 203.0.113.9 . tcp . 80
//	chain source-check      ip saddr . ip daddr . meta l4proto . th dport @denied-sources-32 drop
//	                        ip saddr & 255.255.255.0 . ip daddr . meta l4proto . th dport @allowed-sources-24 accept
//	                        drop
//
// A frontend that only denies some allows length zero. The key of a node port has address zero, for
// the rules of source-check-node-ports, which mask the destination (rules_retry.go).
//
// A set whose keys have an interval would need one look-up only, but the kernel copies it
// for each transaction, and a deletion costs more the more elements there are, with
// nf_tables locked (nft_set_pipapo): to remove 2,000 of 41,800 ranges took 33 s.

// sourceRules are the rules of a chain that checks sources, for the lengths of prefix in
// use. What matches packets in a set is in, or inNodePorts.
func sourceRules(f model.Family, has func(SetID) bool, in func(SetID) Statement) []Rule {
	var rules []Rule
	add := func(kind SetKind, verdict Statement) {
		for bits := families[f].bits(); bits >= 0; bits-- {
			if id := (SetID{Family: f, Kind: kind, Slot: uint16(bits)}); has(id) {
				rules = append(rules, Rule{in(id), verdict})
			}
		}
	}
	add(SetDeniedSources, drop())
	add(SetAllowedSources, accept())
	return append(rules, Rule{drop()})
}

// SourceBits returns how many bits of a client's address are part of the set's key.
func (id SetID) SourceBits() int {
	if id.Kind.hasSources() {
		return int(id.Slot)
	}
	return id.family().bits()
}

// outermost returns the prefixes, sorted, without those that another one contains.
func outermost(prefixes []netip.Prefix) []netip.Prefix {
	sorted := make([]netip.Prefix, 0, len(prefixes))
	for _, p := range prefixes {
		sorted = append(sorted, p.Masked())
	}
	slices.SortFunc(sorted, comparePrefixes)
	var out []netip.Prefix
	for _, p := range sorted {
		if n := len(out); n == 0 || !out[n-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}

// comparePrefixes orders prefixes by address, the wider one of two first.
func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// byLength sorts prefixes of a family in the order of the sets they belong to.
func byLength(prefixes []netip.Prefix) []netip.Prefix {
	slices.SortStableFunc(prefixes, func(a, b netip.Prefix) int { return cmp.Compare(a.Bits(), b.Bits()) })
	return prefixes
}
