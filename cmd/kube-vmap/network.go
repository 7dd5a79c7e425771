package main

import (
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/preflight"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// networkState returns how full connection tracking is, and in which families the node forwards; nil
// if the kernel does not show it.
func networkState() *nodestatus.Network {
	tracked, most, err := conntrack.New(conntrack.Config{}).Usage()
	if err != nil || most == 0 {
		return nil
	}
	var forwarding []string
	for _, f := range model.Families {
		forwarding = append(forwarding, f.String()+" "+preflight.Forwarding("/proc", f))
	}
	return &nodestatus.Network{
		Tracked: int(tracked), TrackedMax: int(most), Forwarding: strings.Join(forwarding, ", "),
	}
}
