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
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/simulate"
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

// readChain adds a chain if it has rules, but not the one that keeps the node's own ports from addresses on
// [IPVSDevice]. It reads from a socket of its own, because the kernel lists the remaining rules, which may
// be tens of thousands, only when they are read. The comment by which a rule of ours is known is a match of
// xtables after a program saved and restored all rules with the tools of iptables-nft.
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
	if p.Suspended = len(p.handles) > 0; p.Suspended || rules > 0 && p.Chain != "KUBE-IPVS-FILTER" {
		f.Parts = append(f.Parts, p)
	}
	return err
}

const (
	// writeBuffer limits the length of a transaction, which is one datagram; some hundred
	// thousand chains fit. Nothing is allocated.
	writeBuffer = 64 << 20
	// readTimeout is how long a socket may be read from. The kernel answers immediately;
	// this only ends what would never end.
	readTimeout = 30 * time.Second
)

func open(netNS int) (*netlink.Conn, error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(conn.SetWriteBuffer(writeBuffer),
		conn.SetReadDeadline(time.Now().Add(readTimeout))); err != nil {
		return nil, errors.Join(fmt.Errorf("set up a netfilter socket: %w", err), conn.Close())
	}
	return conn, nil
}

type state struct {
	// generation is the generation of nf_tables when the rules at the hooks were read.
	generation uint32
	// consistent is true while everything was read at that generation.
	consistent bool
	// hasTable is whether the table of kube-proxy's nftables mode exists, hasMarker whether
	// the marker is there in its place.
	hasTable, hasMarker bool
	// addMarker is whether to add the marker.
	addMarker bool
	tables    []*Table
}

func read(conn *netlink.Conn, f model.Family) (*state, error) {
	s := &state{consistent: true}
	var err error
	if s.generation, err = socket.Generation(conn); err != nil {
		return nil, err
	}
	r := dump.NewReader(conn)
	tables, err := tablesOf(r, f)
	if err != nil {
		return nil, err
	}
	if own, exists := tables[tableName]; exists {
		s.hasMarker = isMarker(own)
		s.hasTable = !s.hasMarker
	}
	for _, name := range IPTablesNames {
		if tables[name] == nil {
			continue
		}
		t := &Table{Name: name, Chains: tables[name]}
		if err := t.readRules(r, f, ""); err != nil {
			return nil, err
		}
		s.tables = append(s.tables, t)
	}
	return s, nil
}

// refresh reads again only the rules at the hooks. They are few, however many Services there
// were, and they are deleted by handle: if the table was rebuilt, a handle may be another
// rule's.
func (s *state) refresh(conn *netlink.Conn, f model.Family) (err error) {
	s.consistent = false
	if s.generation, err = socket.Generation(conn); err != nil {
		return err
	}
	for _, t := range s.tables {
		t.Rules = slices.DeleteFunc(t.Rules, func(r Rule) bool { return t.Chains[r.Chain] })
		for _, name := range baseChains(t.Chains) {
			if err := t.readRules(dump.NewReader(conn), f, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// tablesOf returns the chains of a family's tables by their names, and whether each is at a hook.
// A kernel without the family has none.
func tablesOf(r *dump.Reader, f model.Family) (map[string]map[string]bool, error) {
	all := map[string]map[string]bool{}
	tables, err := r.Tables(nft.FamilyName(f))
	if err != nil || len(tables) == 0 {
		return all, err
	}
	for _, t := range tables {
		all[t.Name] = map[string]bool{}
	}
	chains, err := r.Chains(simulate.Table{Family: nft.FamilyName(f)})
	for _, c := range chains {
		if known := all[c.Table.Name]; known != nil { // it may be added between the two requests
			known[c.Name] = c.Hook != ""
		}
	}
	return all, err
}

func (t *Table) readRules(r *dump.Reader, f model.Family, chain string) error {
	return r.EachRule(chainIn(f, t.Name, chain), func(r dump.Rule) bool {
		t.Rules = append(t.Rules, Rule{r.Chain.Name, r.Jump(), r.Handle})
		return true
	})
}

func chainIn(f model.Family, table, chain string) simulate.Chain {
	return simulate.Chain{Table: simulate.Table{Family: nft.FamilyName(f), Name: table}, Name: chain}
}

// A View is the rules of a node as they are before or after a take-over. It implements
// [simulate.Rules].
type View struct {
	Kernel simulate.Rules
	Found  *Found
	// Before is to see kube-proxy's rules as if they were not suspended, without ours, and otherwise as if
	// they were.
	Before bool
	// Endpoint, unless it is the zero value, is where ours would translate every packet. Masquerade is
	// whether they would masquerade it.
	Endpoint   netip.AddrPort
	Masquerade bool
}

// assumed is the table of the chains that translate; the kernel has none of that name.
const assumed = "assumed"

// BaseChains implements [simulate.Rules]. Chains that translate are just before the chains of our tables,
// which may exist.
func (v View) BaseChains(f model.Family) ([]simulate.BaseChain, error) {
	list, err := v.Kernel.BaseChains(f)
	ours := func(b simulate.BaseChain) bool { return v.Before && b.Table.Name == nft.TableName() }
	if list = slices.DeleteFunc(list, ours); !v.Endpoint.IsValid() {
		return list, err
	}
	for hook, priority := range map[simulate.Hook]int32{simulate.HookPrerouting: -102, simulate.HookPostrouting: 99} {
		c := simulate.BaseChain{Chain: chainIn(f, assumed, string(hook)), Type: "nat", Hook: hook, Priority: priority}
		list = append(list, c)
	}
	return list, err
}

// Rules implements [simulate.Rules].
func (v View) Rules(c simulate.Chain) (list []simulate.Rule, err error) {
	switch {
	case c.Table.Name != assumed:
		list, err = v.Kernel.Rules(c)
	case c.Name == string(simulate.HookPrerouting):
		list = []simulate.Rule{{Expressions: []any{
			&expr.Immediate{Register: 1, Data: v.Endpoint.Addr().AsSlice()},
			&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, v.Endpoint.Port())},
			&expr.NAT{Type: expr.NATTypeDestNAT, RegAddrMin: 1, RegProtoMin: 2},
		}}}
	case v.Masquerade:
		list = []simulate.Rule{{Expressions: []any{&expr.Masq{}}}}
	}
	for _, p := range v.Found.Parts {
		if chainIn(p.Family, p.Table, p.Chain) == c {
			suspends := func(r simulate.Rule) bool { return !v.Before || slices.Contains(p.handles, r.Handle) }
			list = slices.DeleteFunc(list, suspends)
		}
	}
	return list, err
}

// Set implements [simulate.Rules].
func (v View) Set(t simulate.Table, name string) (*simulate.Set, error) { return v.Kernel.Set(t, name) }
