package kubeproxy

import (
	"encoding/binary"
	"errors"
	"fmt"
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
