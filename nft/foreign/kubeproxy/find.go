// Package kubeproxy finds what kube-proxy has in the kernel, whatever its mode, suspends and
// resumes it, and removes it after our own rules are installed. Objects of other programs are
// not touched.
//
// [Find] reads what translates packets. [Found.Suspend] and [Found.Resume] return changes for a
// batch with our own, so exactly one of the two proxies is in effect at any time: each
// chain at which its rules begin gets a rule at its head that returns, and loses it again.
// These are the base chains of nftables mode, and in the other modes the chains to which a hook
// of iptables leads.
//
// Virtual servers of IPVS need no suspension: our chains at dstnat translate a connection
// before IPVS sees it. What iptables-legacy wrote is only noticed, by [FindLegacy].
//
// [Remove] removes it:
//
//	mode      what it left                            how it is removed
//	nftables  tables ip kube-proxy, ip6 kube-proxy    \  one transaction
//	iptables  KUBE-* chains of tables nat, filter     |  per family
//	          and mangle, and the jumps to them       /
//	ipvs      as iptables, and virtual servers,       one by one, and only
//	          ipsets, and the device kube-ipvs0       if that device exists
//
// The tables of iptables are shared with other programs. kube-proxy's chains are known by
// their names (see plan.go); of the rules in other chains, only the jumps from a
// hook to kube-proxy's chains are removed. [Table.Plan] decides this without a kernel.
//
// The kernel refuses the transaction if nf_tables changed since it was read. Then the rules
// at the hooks, which are few, are read again; and in the end everything, to find out
// whether the first read missed something.
//
// Each part may be missing, and no kernel module is loaded to find out.
package kubeproxy

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/mdlayher/netlink"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/kernel/socket"
)

// Found is what kube-proxy has in the kernel, except for iptables-legacy. Empty
// chains, which translate no packet, are not in it. Whether a hook of iptables jumps to a chain
// is not read: kube-proxy adds the jump together with the chain.
type Found struct {
	// Parts is sorted by family, and begins with the chains of nftables mode in each.
	Parts []Part
	// Markers are the families in which the marker exists; see [AddMarker].
	Markers []model.Family
	// IPVS is whether the device of ipvs mode exists.
	IPVS bool
	// Content changes when a chain of nftables mode comes or goes, which most changes of a
	// Service and its endpoints cause: a kube-proxy that runs writes that also while its
	// rules are suspended. Only this process can compare it.
	Content uint64

	generation uint32 // of nf_tables, before the first read
}

var contentSeed = maphash.MakeSeed()

// A Part is a chain of kube-proxy at which its rules begin: a base chain of nftables mode, or
// a chain to which a hook of iptables leads.
type Part struct {
	Family       model.Family
	Table, Chain string
	// Suspended is whether it has a rule of ours that returns.
	Suspended bool

	handles []uint64 // of these rules
}

// String returns the chain as nft names it: "ip nat KUBE-SERVICES".
func (p Part) String() string { return nft.FamilyName(p.Family) + " " + p.Table + " " + p.Chain }

// Awake returns the parts that translate packets.
func (f *Found) Awake() []Part { return f.parts(false) }

// Suspended returns the parts that are suspended.
func (f *Found) Suspended() []Part { return f.parts(true) }

func (f *Found) parts(suspended bool) []Part {
	return slices.DeleteFunc(slices.Clone(f.Parts), func(p Part) bool { return p.Suspended != suspended })
}

// HasTables reports whether there are rules of nftables mode.
func (f *Found) HasTables() bool {
	return slices.ContainsFunc(f.Parts, func(p Part) bool { return p.Table == tableName })
}

// Find reads what kube-proxy has. The network namespace is given by its file descriptor;
// zero means the calling thread's. Of rules it reads only the first ones of a few
// chains, however many Services there are.
func Find(netNS int) (*Found, error) {
	var f *Found
	var err error
	for range maxReads {
		if f, err = find(netNS); err == nil || !isRetryable(err) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look for kube-proxy's rules: %w", socket.ExplainPermission(err, "read nftables"))
	}
	if f.IPVS, err = hasIPVSDevice(netNS); err != nil {
		return nil, err
	}
	return f, nil
}

func find(netNS int) (f *Found, err error) {
	conn, err := open(netNS)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	f = &Found{}
	if f.generation, err = socket.Generation(conn); err != nil {
		return nil, err
	}
	for _, family := range model.Families {
		if err := f.read(conn, netNS, family); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *Found) read(conn *netlink.Conn, netNS int, family model.Family) error {
	tables, err := tablesOf(dump.NewReader(conn), family)
	if err != nil {
		return err
	}
	for _, table := range append([]string{tableName}, IPTablesNames...) {
		all, exists := tables[table]
		if !exists {
			continue
		}
		names := chains[table].hooked
		if table == tableName {
			if isMarker(all) {
				f.Markers = append(f.Markers, family)
			}
			names = baseChains(all)
			for name := range all { // in any order
				f.Content += maphash.String(contentSeed, nft.FamilyName(family)+" "+name)
			}
		}
		for _, chain := range names {
			if err := f.readChain(netNS, Part{Family: family, Table: table, Chain: chain}); err != nil {
				return err
			}
		}
	}
	return nil
}

func baseChains(all map[string]bool) (names []string) {
	for name, base := range all {
		if base {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// headRules is how many rules of a chain are read at least, unless it has fewer. Rules that
// suspend it are at its head; other programs may have inserted some before them.
const headRules = 32

// readChain adds a chain if it has rules. It reads from a socket of its own and closes it,
// because the kernel lists the remaining rules, which may be tens of thousands, only when
// they are read. The comment by which a rule of ours is known is a match of xtables after a
// program saved and restored all rules with the tools of iptables-nft.
func (f *Found) readChain(netNS int, p Part) (err error) {
	conn, err := open(netNS)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	rules := 0
	err = dump.NewReader(conn).EachRule(chainIn(p.Family, p.Table, p.Chain), func(r dump.Rule) bool {
		if r.Comment() == SuspendComment {
			p.handles = append(p.handles, r.Handle)
		}
		rules++
		return rules < headRules
	})
	if p.Suspended = len(p.handles) > 0; rules > 0 {
		f.Parts = append(f.Parts, p)
	}
	return err
}
