package lab

import "net/netip"

// The address plan. Each pair is the IPv4 and the IPv6 range, in the order of
// Families of package model; index it with a Family.
var (
	// ServiceRanges are the ranges of ClusterIPs. No host of the lab has such an
	// address: pods and the host outside send such packets to node-1.
	ServiceRanges = pair("10.96.0.0/16", "fd00:10:96::/112")
	// PodRanges are the ranges of the pods of node-1. The first address is the node's.
	PodRanges = pair("10.244.1.0/24", "fd00:10:244:1::/64")
	// RemotePodRanges are the ranges of the pods of node-2.
	RemotePodRanges = pair("10.244.2.0/24", "fd00:10:244:2::/64")
	// ThirdPodRanges are the ranges of the pods of node-3.
	ThirdPodRanges = pair("10.244.3.0/24", "fd00:10:244:3::/64")
	// OutsideRanges are the ranges of the link between the nodes and the host outside.
	OutsideRanges = pair("192.0.2.0/24", "2001:db8:2::/64")
)

var (
	nodeAddrs    = [2]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:2::1")}
	remoteAddrs  = [2]netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8:2::2")}
	thirdAddrs   = [2]netip.Addr{netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("2001:db8:2::3")}
	outsideAddrs = [2]netip.Addr{netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("2001:db8:2::100")}
)

// maxPods is the most pods of a node: the IPv4 range without the node's own address.
const maxPods = 253

func pair(ip4, ip6 string) [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix(ip4), netip.MustParsePrefix(ip6)}
}

// Nth returns the n-th address after the base of a range.
func Nth(p netip.Prefix, n int) netip.Addr { return After(p.Addr(), n) }

// After returns the n-th address after one.
func After(base netip.Addr, n int) netip.Addr {
	b := base.AsSlice()
	for i := len(b) - 1; n > 0; i-- {
		n += int(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	a, _ := netip.AddrFromSlice(b) // of the same length
	return a
}

// hostPrefix returns the prefix that holds only this address.
func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// defaultRoute returns the prefix of all addresses of a family.
func defaultRoute(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}
