package livenode

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
)

// A translation is the rules of a node with chains that translate every packet to one endpoint, as
// kube-vmap would where it has no tables yet. It implements [simulate.Rules].
type translation struct {
	kernel     simulate.Rules
	to         netip.AddrPort
	masquerade bool
}

// Translate returns the rules with chains that translate every packet to an endpoint, and masquerade
// it if that is true.
func Translate(kernel simulate.Rules, to netip.AddrPort, masquerade bool) simulate.Rules {
	return translation{kernel, to, masquerade}
}

// translationTable is the table of the chains; the kernel has none of that name.
const translationTable = "translation"

// BaseChains implements [simulate.Rules]. The priorities are just before ours (package nft).
func (t translation) BaseChains(f model.Family) ([]simulate.BaseChain, error) {
	list, err := t.kernel.BaseChains(f)
	chain := func(hook simulate.Hook, priority int32) simulate.BaseChain {
		c := simulate.Chain{Table: simulate.Table{Family: nft.FamilyName(f), Name: translationTable}, Name: string(hook)}
		return simulate.BaseChain{Chain: c, Type: "nat", Hook: hook, Priority: priority}
	}
	return append(list, chain(simulate.HookPrerouting, -102), chain(simulate.HookPostrouting, 99)), err
}

// Rules implements [simulate.Rules].
func (t translation) Rules(c simulate.Chain) ([]simulate.Rule, error) {
	switch {
	case c.Table.Name != translationTable:
		return t.kernel.Rules(c)
	case c.Name == string(simulate.HookPrerouting):
		return []simulate.Rule{{Expressions: []any{
			&expr.Immediate{Register: 1, Data: t.to.Addr().AsSlice()},
			&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, t.to.Port())},
			&expr.NAT{Type: expr.NATTypeDestNAT, RegAddrMin: 1, RegProtoMin: 2},
		}}}, nil
	case t.masquerade:
		return []simulate.Rule{{Expressions: []any{&expr.Masq{}}}}, nil
	}
	return nil, nil
}

// Set implements [simulate.Rules].
func (t translation) Set(table simulate.Table, name string) (*simulate.Set, error) {
	return t.kernel.Set(table, name)
}

// podLinks are the beginnings of the names of bridges of pods.
var podLinks = []string{"cni", "cbr", "kube-bridge", "weave"}

// LikelyPods returns addresses that are likely to be pods: with a route of their own, on a bridge of
// pods, or in a network behind another node.
func (n *Network) LikelyPods() (out []netip.Addr, err error) {
	routes, err := n.handle.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil || r.Type != unix.RTN_UNICAST {
			continue
		}
		a, _ := netip.AddrFromSlice(r.Dst.IP)
		ones, bits := r.Dst.Mask.Size()
		link, _, _ := n.Interface(r.LinkIndex)
		onBridge := slices.ContainsFunc(podLinks, func(start string) bool { return strings.HasPrefix(link, start) })
		switch {
		case ones == 0, a.IsLinkLocalUnicast(), a.IsMulticast(), ones < bits && r.Gw == nil && !onBridge:
			continue
		case ones < bits:
			a = a.Next().Next() // the first one is often the node's
		}
		out = append(out, a.Unmap())
	}
	return out, nil
}
