package config

import (
	"fmt"
	"net/netip"
	"strings"

	netutils "k8s.io/utils/net"
)

// parseAddr reads an address as kube-proxy does: leading zeros in IPv4 are
// decimal, and an IPv4 address in an IPv6 one is an IPv4 address.
func parseAddr(s string) (netip.Addr, error) {
	addr, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	if !ok {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", s)
	}
	return addr.Unmap(), nil
}

// parseRange reads a range, with leading zeros as in parseAddr. White space
// around it, which kube-proxy refuses, is what a list has after its commas.
func parseRange(s string) (netip.Prefix, error) {
	_, ipnet, err := netutils.ParseCIDRSloppy(strings.TrimSpace(s))
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a range of IP addresses", s)
	}
	addr, _ := netip.AddrFromSlice(ipnet.IP)
	ones, _ := ipnet.Mask.Size()
	if addr.Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is a range of IPv4 addresses written as IPv6", s)
	}
	return netip.PrefixFrom(addr, ones), nil
}
