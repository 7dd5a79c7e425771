package livenode

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	rtnl "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/rtnetlink"
	"kube-vmap/nft/kernel/socket"
)

// A Network is the routing of one network namespace: the route to an address, whether an address is
// the node's own, which source masquerade selects. It implements [simulate.Network]. It is not safe
// for concurrent use.
type Network struct {
	handle   *netlink.Handle
	routes   *rtnl.Conn // for requests that handle cannot make
	netNS    int
	sysctls  map[string]string
	policies [len(model.Families)]*policy
}

// openNetwork opens the sockets. The network namespace is given by its file descriptor; zero means that
// of the calling thread.
func openNetwork(netNS int) (*Network, error) {
	handle, err := rtnetlink.Open(netNS)
	if err != nil {
		return nil, err
	}
	routes, err := socket.OpenRoute(netNS)
	if err != nil {
		handle.Close()
		return nil, err
	}
	return &Network{handle: handle, routes: routes, netNS: netNS, sysctls: map[string]string{}}, nil
}

// Close closes the sockets.
func (n *Network) Close() error {
	n.handle.Close()
	return n.routes.Close()
}

// Neighbours returns the hosts on links, except for Docker's, that the node knows, and one in each
// network behind a gateway. Link-local addresses are none: which link they are on, routes do not say.
func (n *Network) Neighbours() (out []netip.Addr, err error) {
	const valid = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT
	known, err := n.handle.NeighList(0, netlink.FAMILY_ALL)
	for _, k := range known {
		link, _ := n.linkName(k.LinkIndex)
		docker := strings.HasPrefix(link, "docker") || strings.HasPrefix(link, "br-")
		a, _ := netip.AddrFromSlice(k.IP)
		if !docker && !a.IsLinkLocalUnicast() && k.State&valid != 0 {
			out = append(out, a.Unmap())
		}
	}
	routes, routesErr := n.handle.RouteList(nil, netlink.FAMILY_ALL)
	for _, r := range routes {
		if r.Gw != nil && r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			a, _ := netip.AddrFromSlice(r.Dst.IP)
			out = append(out, a.Unmap().Next())
		}
	}
	return out, errors.Join(err, routesErr)
}

// Neighbour is the source of that name of a simulation.
func (n *Network) Neighbour(a netip.Addr, out simulate.Link) (s simulate.Neighbour, err error) {
	l, err := n.handle.LinkByIndex(out.Index)
	if err != nil {
		return s, fmt.Errorf("find interface %s: %w", out.Name, err)
	}
	if l.Attrs().RawFlags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) != 0 {
		return simulate.NeighbourKnown, nil
	}
	const header, state, destination = 12, 8, 1 // of struct ndmsg; NDA_DST
	e := attr.Encoder{Bytes: append([]byte{nft.FamilyNumber(model.FamilyOf(a))}, make([]byte, header-1)...)}
	binary.NativeEndian.PutUint32(e.Bytes[4:], uint32(out.Index))
	e.Data(destination, a.AsSlice())
	request := rtnl.Message{Header: rtnl.Header{Type: unix.RTM_GETNEIGH, Flags: rtnl.Request}, Data: e.Bytes}
	err = socket.Ask(n.routes, request, func(m rtnl.Message) error {
		if len(m.Data) < header {
			return attr.ErrTruncated
		}
		switch entry := binary.NativeEndian.Uint16(m.Data[state:]); {
		case entry&netlink.NUD_FAILED != 0:
			s = simulate.NeighbourFailed
		case entry&^netlink.NUD_INCOMPLETE != 0:
			s = simulate.NeighbourKnown
		}
		return nil
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return s, fmt.Errorf("find neighbour %s on %s: %w", a, out.Name, err)
	}
	return s, nil
}

// Sysctl implements [simulate.Host]. Each is read once.
func (n *Network) Sysctl(name string) string {
	value, known := n.sysctls[name]
	if !known {
		_ = socket.In(n.netNS, func() error {
			text, err := os.ReadFile("/proc/sys/" + name)
			value = strings.TrimSpace(string(text))
			return err
		})
		n.sysctls[name] = value
	}
	return value
}

// linkName returns the name of an interface by its index, empty if there is no such interface.
func (n *Network) linkName(index int) (string, error) {
	l, err := n.handle.LinkByIndex(index)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("find interface %d: %w", index, err)
	}
	return l.Attrs().Name, nil
}

// Links implements [simulate.Host].
func (n *Network) Links() (links []simulate.Link, err error) {
	list, err := n.handle.LinkList()
	for _, l := range list {
		if a := l.Attrs(); a.RawFlags&(unix.IFF_UP|unix.IFF_LOOPBACK) == unix.IFF_UP && a.MasterIndex == 0 {
			links = append(links, simulate.Link{Index: a.Index, Name: a.Name})
		}
	}
	return links, err
}

// Ports implements [simulate.Host].
func (n *Network) Ports(bridge simulate.Link) (ports []simulate.Port, err error) {
	const header, hairpin, isolated = 16, 4, 33 // of struct ifinfomsg; IFLA_BRPORT_*
	request := rtnl.Message{
		Header: rtnl.Header{Type: unix.RTM_GETLINK, Flags: rtnl.Request | rtnl.Dump},
		Data:   append([]byte{unix.AF_BRIDGE}, make([]byte, header-1)...),
	}
	err = socket.Ask(n.routes, request, func(m rtnl.Message) error {
		var d attr.Decoder
		if len(m.Data) < header {
			return attr.ErrTruncated
		}
		p := simulate.Port{Link: simulate.Link{
			Index: int(binary.NativeEndian.Uint32(m.Data[4:])), Name: attr.String(d.Find(m.Data[header:], unix.IFLA_IFNAME)),
		}}
		of := d.Find(m.Data[header:], unix.IFLA_MASTER)
		if of == nil || int(d.NativeUint32(of)) != bridge.Index {
			return d.Err()
		}
		for kind, value := range d.Attributes(d.Find(m.Data[header:], unix.IFLA_PROTINFO)) {
			p.Hairpin = p.Hairpin || kind == hairpin && d.Uint8(value) != 0
			p.Isolated = p.Isolated || kind == isolated && d.Uint8(value) != 0
		}
		ports = append(ports, p)
		return d.Err()
	})
	if err != nil {
		err = fmt.Errorf("list the ports of bridge %s: %w", bridge.Name, err)
	}
	return ports, err
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
// table is unicast; for IPv6 what kind of route there is decides, too.
func (n *Network) AddressType(a netip.Addr) (uint32, error) {
	if a.IsMulticast() {
		return unix.RTN_MULTICAST, nil
	}
	found, err := n.ask(simulate.RouteQuery{To: a}, 0)
	switch {
	case errors.Is(err, simulate.ErrNoRoute) && a.Is6():
		return typeOfError(err), nil
	case errors.Is(err, simulate.ErrNoRoute):
		return unix.RTN_UNICAST, nil
	case err != nil:
		return 0, fmt.Errorf("find the type of address %s: %w", a, err)
	}
	switch found.kind {
	case unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST:
		return uint32(found.kind), nil
	}
	return unix.RTN_UNICAST, nil
}

// typeOfError returns the type of an address of IPv6 to which there is no route (nft_fib6_eval_type).
func typeOfError(err error) uint32 {
	switch {
	case errors.Is(err, unix.EINVAL):
		return unix.RTN_BLACKHOLE
	case errors.Is(err, unix.EACCES):
		return unix.RTN_PROHIBIT
	case errors.Is(err, unix.EAGAIN):
		return unix.RTN_THROW
	}
	return unix.RTN_UNREACHABLE
}

// Source implements [simulate.Network]. It selects the address as masquerade and redirect do.
func (n *Network) Source(out simulate.Link, via netip.Addr) (netip.Addr, error) {
	list, err := n.handle.AddrList(nil, int(nft.FamilyNumber(model.FamilyOf(via))))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list the addresses of %s: %w", out.Name, err)
	}
	switch {
	case via.IsUnspecified():
		return firstAddress(list, out.Index), nil
	case via.Is6():
		return n.source6(list, out, via)
	}
	if a, ok := selectAddress(list, out.Index, via); ok {
		return a, nil
	}
	return netip.Addr{}, fmt.Errorf("%s has no address to masquerade with", out.Name)
}

// source6 returns the source that ipv6_dev_get_saddr selects, which the kernel reports with a
// route, unless the route has a source of its own.
func (n *Network) source6(list []netlink.Addr, out simulate.Link, via netip.Addr) (netip.Addr, error) {
	q := simulate.RouteQuery{To: via, Out: out}
	if entry, err := n.ask(q, unix.RTM_F_FIB_MATCH); err != nil || !entry.source.IsValid() {
		if found, err := n.ask(q, 0); err == nil && found.source.IsValid() {
			return found.source, otherPeer(list, found.source, found.nextHop(via))
		}
	}
	if slices.ContainsFunc(list, func(a netlink.Addr) bool { return a.IP.Equal(via.AsSlice()) }) {
		return via, nil // the same address comes first (RFC 6724)
	}
	list = slices.DeleteFunc(list, func(a netlink.Addr) bool {
		const unfit = unix.IFA_F_TENTATIVE | unix.IFA_F_DEPRECATED
		return a.LinkIndex != out.Index || a.Scope != unix.RT_SCOPE_UNIVERSE || a.Flags&unfit != 0
	})
	if len(list) != 1 {
		return netip.Addr{}, simulate.Undecided("masquerade to one of several addresses of " + out.Name)
	}
	return firstAddress(list, out.Index), nil
}

// otherPeer returns an error if the address has a peer that is not the next hop: whether the next
// hop sends replies to such an address is not known here.
func otherPeer(list []netlink.Addr, a, hop netip.Addr) error {
	i := slices.IndexFunc(list, func(l netlink.Addr) bool { return l.IP.Equal(a.AsSlice()) })
	if i < 0 || list[i].Peer == nil || list[i].Peer.Contains(hop.AsSlice()) {
		return nil
	}
	return simulate.Undecided(fmt.Sprintf("masquerade to %s, which has a peer that is not the next hop", a))
}

// firstAddress returns the first address of an interface, as it is in the kernel's list
// (nf_nat_redirect_ipv4, nf_nat_redirect_ipv6); the zero value if it has none.
func firstAddress(list []netlink.Addr, index int) netip.Addr {
	for _, a := range list {
		addr, ok := netip.AddrFromSlice(a.IP)
		unready := a.Flags&unix.IFA_F_TENTATIVE != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0
		if ok && a.LinkIndex == index && !unready {
			return addr.Unmap()
		}
	}
	return netip.Addr{}
}

// selectAddress does what inet_select_addr does (net/ipv4/devinet.c): it returns the first
// address of the interface whose subnet has the next hop, else the first of the interface,
// else the first of any interface. The subnet of an address with a peer is the peer's.
func selectAddress(list []netlink.Addr, index int, via netip.Addr) (netip.Addr, bool) {
	var first, elsewhere netip.Addr
	for _, a := range list {
		addr, ok := netip.AddrFromSlice(a.IP)
		if !ok || a.Scope != unix.RT_SCOPE_UNIVERSE || a.Flags&unix.IFA_F_SECONDARY != 0 {
			continue
		}
		addr = addr.Unmap()
		elsewhere = cmp.Or(elsewhere, addr)
		if a.LinkIndex != index {
			continue
		}
		if cmp.Or(a.Peer, a.IPNet).Contains(via.AsSlice()) {
			return addr, true
		}
		first = cmp.Or(first, addr)
	}
	addr := cmp.Or(first, elsewhere)
	return addr, addr.IsValid()
}
