package livenode

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/rtnetlink"
	"kube-vmap/nft/kernel/socket"
)

// A Network is the routing of one network namespace: the route to an address, whether an address is
// the node's own, which source masquerade selects. It implements [simulate.Network]. It is not safe
// for concurrent use.
type Network struct {
	handle *netlink.Handle
	netNS  int
	hooked map[model.Family]bool // whether packets between ports of a bridge pass the hooks
}

// OpenNetwork opens a socket. The network namespace is given by its file descriptor; zero means that
// of the calling thread.
func OpenNetwork(netNS int) (*Network, error) {
	handle, err := rtnetlink.Open(netNS)
	if err != nil {
		return nil, err
	}
	return &Network{handle: handle, netNS: netNS, hooked: map[model.Family]bool{}}, nil
}

// Close closes the socket.
func (n *Network) Close() error {
	n.handle.Close()
	return nil
}

// Route implements [simulate.Network].
func (n *Network) Route(w simulate.RouteQuery) (simulate.Route, error) {
	o := &netlink.RouteGetOptions{IifIndex: w.In.Index, Mark: w.Mark}
	if w.From.IsValid() {
		o.SrcAddr = w.From.AsSlice()
	}
	list, err := n.handle.RouteGetWithOptions(w.To.AsSlice(), o)
	if err != nil {
		return simulate.Route{}, fmt.Errorf("find a route to %s: %w", w.To, routeError(err, w))
	}
	if len(list) == 0 {
		return simulate.Route{}, fmt.Errorf("find a route to %s: %w", w.To, simulate.ErrNoRoute)
	}
	r := simulate.Route{Local: deliversLocally(list[0].Type, w.In)}
	r.Via, _ = netip.AddrFromSlice(list[0].Gw)
	r.Via = r.Via.Unmap()
	if list[0].LinkIndex == 0 {
		return r, nil
	}
	r.Out.Index = list[0].LinkIndex
	var bridge bool
	r.Out.Name, bridge, err = n.Interface(r.Out.Index)
	if err == nil && r.Out.Name == "" {
		err = fmt.Errorf("interface %d, to which %s is routed, has just gone", r.Out.Index, w.To)
	}
	r.Bridged = bridge && n.bridgedPacketsPassHooks(model.FamilyOf(w.To))
	return r, err
}

// KnowsNeighbour reports whether the kernel has a link layer address of a neighbour. While it
// looks for one it has none, nor after that failed, when it may remove the entry at any time.
func (n *Network) KnowsNeighbour(neighbour netip.Addr, out simulate.Link) (bool, error) {
	list, err := n.handle.NeighList(out.Index, int(nft.FamilyNumber(model.FamilyOf(neighbour))))
	if err != nil {
		return false, fmt.Errorf("list neighbours on %s: %w", out.Name, err)
	}
	return slices.ContainsFunc(list, func(entry netlink.Neigh) bool {
		a, _ := netip.AddrFromSlice(entry.IP)
		return a.Unmap() == neighbour && entry.State&^(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) != 0
	}), nil
}

// deliversLocally reports whether the node delivers packets of a type of route to itself. Of
// broadcasts these are all that come in, because it forwards none.
func deliversLocally(kind int, in simulate.Link) bool {
	return kind == unix.RTN_LOCAL || kind == unix.RTN_ANYCAST || kind == unix.RTN_BROADCAST && in.Index != 0
}

// routeError returns [simulate.ErrNoRoute] with the reason, if that is what the error means.
func routeError(err error, w simulate.RouteQuery) error {
	switch {
	case errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) && w.In.Index != 0:
		return fmt.Errorf("%w for a packet from %s that comes in by %s: "+
			"the kernel does not accept that source there (rp_filter), or drops packets to that destination",
			simulate.ErrNoRoute, w.From, w.In.Name)
	case errors.Is(err, unix.EHOSTUNREACH) && w.In.Index != 0:
		return fmt.Errorf("%w, or the node does not forward (net.ipv4.ip_forward)", simulate.ErrNoRoute)
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES),
		errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w on this node", simulate.ErrNoRoute)
	}
	return err
}

// bridgedPacketsPassHooks reports whether packets between the ports of a bridge pass the hooks
// of a family, which the module br_netfilter does.
func (n *Network) bridgedPacketsPassHooks(f model.Family) bool {
	pass, known := n.hooked[f]
	if known {
		return pass
	}
	name := [...]string{model.IPv4: "bridge-nf-call-iptables", model.IPv6: "bridge-nf-call-ip6tables"}[f]
	_ = socket.In(n.netNS, func() error {
		value, err := os.ReadFile("/proc/sys/net/bridge/" + name)
		pass = err == nil && strings.TrimSpace(string(value)) != "0"
		return err // without the module there is no such file
	})
	n.hooked[f] = pass
	return pass
}

// Interface returns the name of an interface by its index, and whether it is a bridge. The
// name is empty if there is no such interface.
func (n *Network) Interface(index int) (name string, bridge bool, err error) {
	l, err := n.handle.LinkByIndex(index)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("find interface %d: %w", index, err)
	}
	return l.Attrs().Name, l.Type() == "bridge", nil
}

// Link returns a link by its name.
func (n *Network) Link(name string) (simulate.Link, error) {
	l, err := n.handle.LinkByName(name)
	if err != nil {
		return simulate.Link{}, fmt.Errorf("find interface %s: %w", name, err)
	}
	return simulate.Link{Index: l.Attrs().Index, Name: l.Attrs().Name}, nil
}

// AddressType implements [simulate.Network]. An address without an entry in the local routing
// table is unicast.
func (n *Network) AddressType(a netip.Addr) (uint32, error) {
	if a.IsMulticast() {
		return unix.RTN_MULTICAST, nil
	}
	list, err := n.handle.RouteGetWithOptions(a.AsSlice(), nil)
	switch {
	case err != nil && errors.Is(routeError(err, simulate.RouteQuery{To: a}), simulate.ErrNoRoute):
		return unix.RTN_UNICAST, nil
	case err != nil:
		return 0, fmt.Errorf("find the type of address %s: %w", a, err)
	}
	for _, r := range list {
		switch r.Type {
		case unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST:
			return uint32(r.Type), nil
		}
	}
	return unix.RTN_UNICAST, nil
}

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
