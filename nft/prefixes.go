package nft

import (
	"cmp"
	"net/netip"
	"slices"
)

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
