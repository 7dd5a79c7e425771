package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/trafficmngr"
	"github.com/flannel-io/flannel/pkg/trafficmngr/iptables"
	"github.com/flannel-io/flannel/pkg/trafficmngr/nftables"
)

// resync is how often flannel restores its rules with iptables, in seconds. The program
// ends before that.
const resync = 60

// flannel sets the rules as flanneld does with --ip-masq.
func flannel(args []string) error {
	if err := needs(args, 3); err != nil {
		return err
	}
	managers := map[string]trafficmngr.TrafficManager{
		"iptables": &iptables.IPTablesManager{},
		"nftables": &nftables.NFTablesManager{},
	}
	m, ok := managers[args[0]]
	if !ok {
		return fmt.Errorf("flannel has no mode %q", args[0])
	}
	pods4, pods6, err := parseRanges(args[1])
	if err != nil {
		return err
	}
	cluster4, cluster6, err := parseRanges(args[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := m.Init(ctx); err != nil {
		return err
	}
	m.SetupAndEnsureForwardRules(ctx, cluster4, cluster6, resync)
	own := &lease.Lease{EnableIPv4: true, EnableIPv6: true, Subnet: pods4, IPv6Subnet: pods6}
	// As if it were restarted with the same configuration.
	return m.SetupAndEnsureMasqRules(ctx, cluster4, pods4, cluster4, cluster6, pods6, cluster6, own, resync, false)
}

// parseRanges parses a range of each family.
func parseRanges(text string) (r4 ip.IP4Net, r6 ip.IP6Net, err error) {
	text4, text6, _ := strings.Cut(text, ",")
	_, net4, err := net.ParseCIDR(text4)
	if err != nil {
		return r4, r6, err
	}
	_, net6, err := net.ParseCIDR(text6)
	if err != nil {
		return r4, r6, err
	}
	return ip.FromIPNet(net4), ip.FromIP6Net(net6), nil
}
