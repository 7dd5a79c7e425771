package kubeproxy

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
)

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
