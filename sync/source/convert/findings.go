package convert

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"kube-vmap/model"
)

type findings struct {
	errs    field.ErrorList
	omitted int // errors beyond maxErrors
	invalid bool
}

// Limits of what is reported about one object: an object of a megabyte must not fill the
// log and memory of every node.
const (
	maxErrors = 20
	maxValue  = 256 // bytes of a quoted value
)

// skip records errors about a skipped part, and reports whether there were any. Nil
// errors do not count.
func (f *findings) skip(errs ...*field.Error) bool {
	found := false
	for _, err := range errs {
		if err == nil {
			continue
		}
		found = true
		if len(f.errs) == maxErrors {
			f.omitted++
			continue
		}
		if v := reflect.ValueOf(err.BadValue); v.Kind() == reflect.String {
			err.BadValue = shorten(v.String(), maxValue)
		}
		err.Detail = shorten(err.Detail, maxValue)
		f.errs = append(f.errs, err)
	}
	return found
}

// list returns the errors. If there are more than maxErrors, the last one counts them.
func (f *findings) list() field.ErrorList {
	if f.omitted == 0 {
		return f.errs
	}
	rest := field.Invalid(field.NewPath("..."), field.OmitValueType{}, fmt.Sprintf("and %d more errors", f.omitted))
	return append(f.errs, rest)
}

// shorten cuts a text that is longer than limit bytes, between characters.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// invalidate records errors that make the object invalid. Nil errors do not count.
func (f *findings) invalidate(errs ...*field.Error) {
	if f.skip(errs...) {
		f.invalid = true
	}
}

// checkNames makes an object invalid whose namespace or name the API would refuse. Names appear in
// the comments of nft listings and in log lines; a valid one can end neither a quote nor a line.
func (f *findings) checkNames(meta *metav1.ObjectMeta, nameProblems func(string) []string) {
	f.invalidate(
		invalidName(pathNamespace, meta.Namespace, validation.IsDNS1123Label),
		invalidName(pathName, meta.Name, nameProblems),
	)
}

// invalidName returns an error if problems finds any in the name. Problems must accept all DNS
// labels: most names are labels, which do not need its regular expression.
func invalidName(path *field.Path, name string, problems func(string) []string) *field.Error {
	if isPlainName(name) && len(name) <= validation.DNS1123LabelMaxLength && !strings.Contains(name, ".") {
		return nil
	}
	if found := problems(name); len(found) > 0 {
		return field.Invalid(path, name, strings.Join(found, "; "))
	}
	return nil
}

// protocolOf returns the model's value of a protocol. The API documents that an empty one
// means TCP.
func protocolOf(path *field.Path, p corev1.Protocol) (model.Protocol, *field.Error) {
	switch p {
	case corev1.ProtocolTCP, "":
		return model.TCP, nil
	case corev1.ProtocolUDP:
		return model.UDP, nil
	case corev1.ProtocolSCTP:
		return model.SCTP, nil
	}
	return 0, field.NotSupported(path.Child("protocol"), p,
		[]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP})
}

// portNumber validates the port number in a field of path. Zero is invalid.
func portNumber(path *field.Path, name string, port int32) (uint16, *field.Error) {
	if problems := validation.IsValidPortNum(int(port)); len(problems) > 0 {
		return 0, field.Invalid(path.Child(name), port, strings.Join(problems, "; "))
	}
	return uint16(port), nil
}

// created returns a creation time in nanoseconds since the Unix epoch; zero if unset, as
// in most manifests.
func created(t metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// annotation returns the parsed value of an annotation, and records an error if it cannot be
// parsed.
func annotation[T any](f *findings, all map[string]string, name string, parse func(string) (T, error)) T {
	value, err := parse(all[name])
	if err != nil {
		f.skip(field.Invalid(field.NewPath("metadata", "annotations").Key(name), all[name], err.Error()))
	}
	return value
}

// Paths of fields that every object has; objects without errors do not pay for them.
var (
	pathNamespace    = field.NewPath("metadata", "namespace")
	pathName         = field.NewPath("metadata", "name")
	pathAnnotations  = field.NewPath("metadata", "annotations")
	pathServiceName  = field.NewPath("metadata", "labels").Key(discoveryv1.LabelServiceName)
	pathServicePorts = field.NewPath("spec", "ports")
	pathClusterIP    = field.NewPath("spec", "clusterIP")
	pathClusterIPs   = field.NewPath("spec", "clusterIPs")
	pathExternalIPs  = field.NewPath("spec", "externalIPs")
	pathSourceRanges = field.NewPath("spec", "loadBalancerSourceRanges")
	pathIngress      = field.NewPath("status", "loadBalancer", "ingress")
	pathSlicePorts   = field.NewPath("ports")
	pathEndpoints    = field.NewPath("endpoints")
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

// unusableAddr returns why no Service and no endpoint can have the address, or "" if one can.
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
