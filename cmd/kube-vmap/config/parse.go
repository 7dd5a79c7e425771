package config

import (
	"fmt"
	"net/netip"
	"strings"

	netutils "k8s.io/utils/net"
)

// parseAddr parses an address as kube-proxy does: IPv4 numbers with leading zeros are
// decimal, and IPv4-mapped IPv6 addresses are IPv4.
func parseAddr(s string) (netip.Addr, error) {
	addr, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	if !ok {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", s)
	}
	return addr.Unmap(), nil
}

// parseRange parses a range, with leading zeros as in parseAddr. Unlike in kube-proxy, it may
// have white space around it, as after the commas of a list.
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
