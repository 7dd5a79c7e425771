package wire

import (
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/nfttest"
)

// sampleConfig detects pods in both families, and has every option.
var sampleConfig = nft.Config{
	MasqueradeMark:   nft.DefaultMasqueradeMark,
	DropInvalid:      true,
	CountConnections: true,
	PassiveHealth:    true,
	Pods: [...]netip.Prefix{
		model.IPv4: netip.MustParsePrefix("10.244.0.0/16"),
		model.IPv6: netip.MustParsePrefix("fd00:10:244::/56"),
	},
	PingTo: [...]netip.Addr{model.IPv4: netip.MustParseAddr("192.0.2.1"), model.IPv6: netip.MustParseAddr("2001:db8::1")},
}

// sample is the change from nothing to n Services of every kind.
func sample(n int) nft.Change {
	return nft.Change{Set: nfttest.Frontends(n), ServiceCIDRs: &nfttest.ServiceCIDRs, NodeAddrs: &nfttest.NodeAddrs}
}

// load is the batch of a first load of n Services, and the resulting state.
func load(n int) (*nft.Ruleset, nft.Batch) { return nft.Adopt(sampleConfig, nft.Tables{}, sample(n)) }
