package convert

import (
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// ParseAddr parses an address as the API does for its older fields: leading zeros in
// IPv4 ("010.0.0.1") are decimal, and an IPv4-mapped IPv6 address is the IPv4
// address. The result is canonical.
func ParseAddr(path *field.Path, value string) (netip.Addr, *field.Error) {
	if addr, err := netip.ParseAddr(value); err == nil && addr.Zone() == "" {
		return addr.Unmap(), nil
	}
	if errs := validation.IsValidIPForLegacyField(path, value, false, nil); len(errs) > 0 {
		return netip.Addr{}, errs[0]
	}
	addr, _ := netip.AddrFromSlice(netutils.ParseIPSloppy(value))
	return addr.Unmap(), nil
}

// ParsePrefix parses a CIDR as leniently as [ParseAddr] an address. It removes white
// space around it and bits after the prefix length.
func ParsePrefix(path *field.Path, value string) (netip.Prefix, *field.Error) {
	value = strings.TrimSpace(value)
	if errs := validation.IsValidCIDRForLegacyField(path, value, false, nil); len(errs) > 0 {
		return netip.Prefix{}, errs[0]
	}
	_, network, _ := netutils.ParseCIDRSloppy(value)
	addr, _ := netip.AddrFromSlice(network.IP)
	if addr.Is4In6() {
		return netip.Prefix{}, field.Invalid(path, value, "must not have an IPv4-mapped IPv6 address")
	}
	bits, _ := network.Mask.Size()
	return netip.PrefixFrom(addr, bits), nil
}

// parseVirtualIP parses an address that a Service may have: any that can leave a host
// and belong to one destination. Link-local addresses are allowed for ClusterIPs and
// load balancers, and clusters use them.
func parseVirtualIP(path *field.Path, value string) (netip.Addr, *field.Error) {
	addr, err := ParseAddr(path, value)
	if err != nil {
		return netip.Addr{}, err
	}
	if problem := unusableAddr(addr); problem != "" {
		return netip.Addr{}, field.Invalid(path, value, problem)
	}
	return addr, nil
}

// parseHostIP parses an address that a host on the network can have: one that the
// API accepts for endpoints and external IPs.
func parseHostIP(path *field.Path, value string) (netip.Addr, *field.Error) {
	addr, err := parseVirtualIP(path, value)
	if err == nil && addr.IsLinkLocalUnicast() {
		err = field.Invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	}
	return addr, err
}

// broadcast is the address of all hosts on a link. A Service with it would take the
// DHCP requests of every host.
var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// unusableAddr returns why no Service and no endpoint can have the address; empty if one can.
func unusableAddr(addr netip.Addr) string {
	switch {
	case addr.IsUnspecified():
		return "may not be unspecified (0.0.0.0 or ::)"
	case addr.IsLoopback():
		return "may not be in the loopback range (127.0.0.0/8, ::1/128)"
	case addr.IsMulticast():
		return "may not be in the multicast range (224.0.0.0/4, ff00::/8)"
	case addr == broadcast:
		return "may not be the broadcast address (255.255.255.255)"
	}
	return ""
}
