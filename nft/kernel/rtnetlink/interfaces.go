package rtnetlink

import (
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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
