package rtnetlink

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/simulate"
)

// Source implements [simulate.Network]. It selects the address as masquerade does: for IPv6
// that is the source of a route out of the interface.
func (n *Network) Source(out simulate.Link, via netip.Addr) (netip.Addr, error) {
	if via.Is6() && !via.IsUnspecified() {
		list, err := n.handle.RouteGetWithOptions(via.AsSlice(), &netlink.RouteGetOptions{OifIndex: out.Index})
		if err == nil && len(list) > 0 && list[0].Src != nil {
			a, _ := netip.AddrFromSlice(list[0].Src)
			return a, nil
		}
	}
	list, err := n.handle.AddrList(nil, int(nft.FamilyNumber(model.FamilyOf(via))))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list the addresses of %s: %w", out.Name, err)
	}
	if a, ok := selectAddress(list, out.Index, via); ok {
		return a, nil
	}
	return netip.Addr{}, fmt.Errorf("%s has no address to masquerade with", out.Name)
}

// selectAddress does what inet_select_addr does (net/ipv4/devinet.c): it returns the first
// address of the interface whose subnet has the next hop, else the first of the interface,
// else the first of any interface.
func selectAddress(list []netlink.Addr, index int, via netip.Addr) (netip.Addr, bool) {
	var first, elsewhere netip.Addr
	for _, a := range list {
		addr, ok := netip.AddrFromSlice(a.IP)
		if !ok || a.Scope != unix.RT_SCOPE_UNIVERSE {
			continue
		}
		addr = addr.Unmap()
		if !elsewhere.IsValid() {
			elsewhere = addr
		}
		if a.LinkIndex != index || a.Flags&unix.IFA_F_SECONDARY != 0 {
			continue
		}
		ones, _ := a.Mask.Size()
		if netip.PrefixFrom(addr, ones).Contains(via) {
			return addr, true
		}
		if !first.IsValid() {
			first = addr
		}
	}
	if first.IsValid() {
		return first, true
	}
	return elsewhere, elsewhere.IsValid()
}
