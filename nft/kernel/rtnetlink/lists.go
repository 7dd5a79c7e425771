package rtnetlink

import (
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// FollowAddresses follows the addresses that the node answers to, except loopback addresses,
// which only the node itself can reach. They are in any order, and those of several interfaces
// more than once. For netNS see [Open].
func FollowAddresses(netNS int) (*Follower[netip.Addr], error) {
	return follow(netNS, kind[netip.Addr]{
		name: "addresses", groups: []uint{unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR},
		quiet: 20 * time.Millisecond, // interfaces often get several at a time
		list:  listAddresses,
	})
}

func listAddresses(h *netlink.Handle) ([]netip.Addr, error) {
	found, err := h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	out := make([]netip.Addr, 0, len(found))
	for i := range found {
		if addr, ok := usableAddr(&found[i]); ok {
			out = append(out, addr)
		}
	}
	return out, nil
}

// usableAddr returns the address, and whether the node answers to it.
func usableAddr(a *netlink.Addr) (netip.Addr, bool) {
	if a.IPNet == nil {
		return netip.Addr{}, false
	}
	addr, ok := netip.AddrFromSlice(a.IP)
	addr = addr.Unmap()
	waiting := a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0
	return addr, ok && !waiting && !addr.IsLoopback()
}

// FollowInterfaces follows the names of all interfaces but loopbacks, sorted. For netNS see [Open].
func FollowInterfaces(netNS int) (*Follower[string], error) {
	return follow(netNS, kind[string]{
		name: "interfaces", groups: []uint{unix.RTNLGRP_LINK},
		quiet: 50 * time.Millisecond, // one causes several, and pods often come in groups
		list:  listInterfaces,
	})
}

func listInterfaces(h *netlink.Handle) ([]string, error) {
	links, err := h.LinkList()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, l := range links {
		if a := l.Attrs(); a.RawFlags&unix.IFF_LOOPBACK == 0 {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
