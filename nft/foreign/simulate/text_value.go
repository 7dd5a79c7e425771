package simulate

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A form is how a constant is printed.
type form uint8

const (
	formHex form = iota // unknown
	formAddress
	formNumber // in network byte order
	formNative // a number in the machine's byte order
	formMark
	formPriority // of traffic control: major and minor number
	formName
	formProtocol
	formFamily
	formState
	formStatus
	formLabel // of a connection
	formRoute // type of an address
	formICMP  // type of a message
	formTCPFlags
	formDirection // of a connection
)

// tcpFlagNames are the flags of a TCP header, from the least significant one.
var tcpFlagNames = [8]string{"fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"}

func (k form) text(b []byte) string {
	n, isNative := native(b)
	switch {
	case k == formAddress:
		if a, ok := netip.AddrFromSlice(b); ok {
			return a.String()
		}
	case k == formNumber && len(b) <= 8:
		return strconv.FormatUint(number(b), 10)
	case k == formNative && len(b) == 2:
		return strconv.Itoa(int(binary.NativeEndian.Uint16(b)))
	case k == formNative && isNative:
		return strconv.FormatUint(uint64(n), 10)
	case k == formPriority && isNative && n == 0:
		return "none"
	case k == formDirection && len(b) == 1:
		return [...]string{"original", "reply"}[b[0]&1]
	case k == formName:
		return strconv.Quote(nameText(b))
	case k == formProtocol && len(b) == 1:
		return nameOf(protocols, uint32(b[0]))
	case k == formICMP && len(b) == 1:
		return nameOf(icmpTypes, uint32(b[0]))
	case k == formFamily && len(b) == 1:
		return nameOf(protocolFamilies, uint32(b[0]))
	case k == formRoute && isNative:
		return nameOf(routes, n)
	}
	return k.bits(b)
}

// isBits reports whether nft compares the bits of the form by name.
func (k form) isBits() bool {
	return k == formState || k == formStatus || k == formLabel || k == formTCPFlags
}

func (k form) bits(b []byte) string {
	n, isNative := native(b)
	switch {
	case k == formState && isNative:
		return flags(states, n)
	case k == formStatus && isNative:
		return flags(statuses, n)
	case k == formLabel && len(b) == 16:
		return labelText(b)
	case k == formTCPFlags && len(b) == 1 && bits.OnesCount8(b[0]) == 1:
		return tcpFlagNames[bits.TrailingZeros8(b[0])]
	case k == formMark && isNative:
		return fmt.Sprintf("0x%08x", n)
	case k == formPriority && isNative:
		return fmt.Sprintf("%x:%x", n>>16, n&0xffff)
	case len(b) == 0:
		return "0"
	case k == formAddress:
		if a, ok := netip.AddrFromSlice(b); ok {
			return a.String()
		}
	}
	return "0x" + hex.EncodeToString(b)
}

// labelText returns the numbers of the bits in a label, which is an array of longs.
func labelText(b []byte) string {
	var list []string
	for i := range 8 * len(b) {
		if binary.NativeEndian.Uint64(b[i/64*8:])>>(i%64)&1 != 0 {
			list = append(list, strconv.Itoa(i))
		}
	}
	return strings.Join(list, ",")
}

// prefixOf returns an address and a mask as a prefix; false if the mask is not of a prefix.
func prefixOf(address, mask []byte) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(address)
	ones, isPrefix := maskBits(mask)
	return netip.PrefixFrom(a, ones), ok && isPrefix && len(mask) == len(address)
}

// maskBits returns the number of ones that a mask begins with, and whether it has no others.
func maskBits(mask []byte) (ones int, isPrefix bool) {
	for ones < 8*len(mask) && mask[ones/8]<<(ones%8)&0x80 != 0 {
		ones++
	}
	all := 0
	for _, m := range mask {
		all += bits.OnesCount8(m)
	}
	return ones, all == ones
}

func number(b []byte) (n uint64) {
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}

func native(b []byte) (uint32, bool) {
	if len(b) != 4 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(b), true
}

// guessForm returns the likely form of a constant that is not compared with a field.
func guessForm(b []byte) form {
	switch len(b) {
	case 2:
		return formNumber
	case 4, 16:
		return formAddress
	}
	return formHex
}

func nameOf(names map[uint32]string, n uint32) string {
	if name, known := names[n]; known {
		return name
	}
	return strconv.FormatUint(uint64(n), 10)
}

func flags(names map[uint32]string, n uint32) string {
	var list []string
	for bit := uint32(1); bit != 0; bit <<= 1 {
		if n&bit != 0 {
			name, known := names[bit]
			if !known {
				name = fmt.Sprintf("0x%x", bit)
			}
			list = append(list, name)
		}
	}
	return strings.Join(list, ",")
}

// icmpTypes are types of both families: neither uses the number of the other.
var icmpTypes = map[uint32]string{8: "echo-request", 128: "echo-request"}

var protocols = map[uint32]string{
	unix.IPPROTO_ICMP: "icmp", unix.IPPROTO_IGMP: "igmp", unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp",
	unix.IPPROTO_DCCP: "dccp", unix.IPPROTO_GRE: "gre", unix.IPPROTO_ESP: "esp", unix.IPPROTO_AH: "ah",
	unix.IPPROTO_ICMPV6: "ipv6-icmp", unix.IPPROTO_SCTP: "sctp", unix.IPPROTO_UDPLITE: "udplite",
}

var protocolFamilies = map[uint32]string{unix.NFPROTO_IPV4: "ipv4", unix.NFPROTO_IPV6: "ipv6"}

// Bits of conntrack's state (include/uapi/linux/netfilter/nf_conntrack_common.h).
var states = map[uint32]string{1: "invalid", 2: "established", 4: "related", 8: "new", 64: "untracked"}

// Bits of conntrack's status.
var statuses = map[uint32]string{
	1: "expected", 2: "seen-reply", 4: "assured", 8: "confirmed", 16: "snat", 32: "dnat", 512: "dying",
}

var routes = map[uint32]string{
	unix.RTN_UNSPEC: "unspec", unix.RTN_UNICAST: "unicast", unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast",
	unix.RTN_ANYCAST: "anycast", unix.RTN_MULTICAST: "multicast", unix.RTN_BLACKHOLE: "blackhole",
	unix.RTN_UNREACHABLE: "unreachable", unix.RTN_PROHIBIT: "prohibit",
}

// A dataType is one of nft's data types (nftables include/datatype.h).
type dataType uint32

const (
	typeIPv4 dataType = 7
	typeMark dataType = 19
)

// dataForms are how the types are printed, and their lengths in a concatenation, with padding.
var dataForms = map[dataType]field{
	typeIPv4: {"", formAddress, 4}, 8: {"", formAddress, 16}, 12: {"", formProtocol, 4}, 13: {"", formNumber, 4},
	typeMark: {"", formNative, 4}, 23: {"", formPriority, 4},
}

func dataTypes(number uint32) (all []field) {
	const bits = 6 // of each type
	for ; number > 0; number >>= bits {
		all = append([]field{dataForms[dataType(number&(1<<bits-1))]}, all...)
	}
	return all
}

// lengths are the lengths of values without padding.
var lengths = map[form]int{formProtocol: 1, formNumber: 2}

// valueText returns a key or data as nft prints it; as hexadecimal digits if its type is
// unknown.
func valueText(number uint32, b []byte) string {
	kinds, rest := dataTypes(number), b
	var parts []string
	for _, k := range kinds {
		n := int(k.length)
		if len(kinds) == 1 {
			n = len(b)
		}
		if k.length == 0 || n > len(rest) {
			parts = nil
			break
		}
		used := n
		if l := lengths[k.form]; l != 0 {
			used = min(l, n)
		}
		parts, rest = append(parts, k.form.text(rest[:used])), rest[n:]
	}
	if len(parts) == 0 {
		return "0x" + hex.EncodeToString(b)
	}
	return strings.Join(parts, " . ")
}
