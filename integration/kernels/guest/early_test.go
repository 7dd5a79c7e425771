package main

import "testing"

func TestEarlyModulesDoNotChangeFlows(t *testing.T) {
	for file, want := range map[string]bool{
		"kernel/net/netfilter/nf_tables.ko":               true,
		"kernel/net/netfilter/nft_chain_nat.ko":           true,
		"kernel/net/ipv6/netfilter/nft_fib_ipv6.ko":       true,
		"kernel/net/ipv4/netfilter/nf_reject_ipv4.ko":     true,
		"kernel/net/netfilter/nf_conntrack_netlink.ko":    true,
		"kernel/drivers/net/veth.ko":                      true,
		"kernel/net/netfilter/nf_conntrack_ftp.ko":        false,
		"kernel/net/netfilter/nf_nat_sip.ko":              false,
		"kernel/net/bridge/br_netfilter.ko":               false,
		"kernel/net/bridge/netfilter/nft_meta_bridge.ko":  false,
		"kernel/net/ipv4/netfilter/ip_tables.ko":          false,
		"kernel/net/netfilter/ipvs/ip_vs.ko":              false,
		"kernel/drivers/net/ethernet/intel/e1000/veth.ko": false,
	} {
		if got := early.MatchString(file); got != want {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
	}
}
