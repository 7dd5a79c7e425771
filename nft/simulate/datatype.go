package simulate

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"

	"kube-vmap/model"
)

// kind is one of nft's data types (nftables include/datatype.h).
type kind uint32

const (
	kindIPv4    kind = 7
	kindIPv6    kind = 8
	kindProto   kind = 12
	kindService kind = 13
	kindMark    kind = 19
)

// length is how many bytes it takes in a key of several, padding included; zero if
// that is not known.
func (k kind) length() int {
	switch k {
	case kindIPv4, kindProto, kindService, kindMark:
		return 4
	case kindIPv6:
		return 16
	}
	return 0
}

// kindsOf are the types that a key or data is made of.
func kindsOf(number uint32) (all []kind) {
	const bits = 6 // that nft shifts each by
	for ; number > 0; number >>= bits {
		all = append([]kind{kind(number & (1<<bits - 1))}, all...)
	}
	return all
}

// valueText is a key or data in nft's words; as hexadecimal digits if its type is not
// known.
func valueText(number uint32, b []byte) string {
	kinds := kindsOf(number)
	whole := b
	var parts []string
	for _, k := range kinds {
		n := k.length()
		if len(kinds) == 1 {
			n = len(b)
		}
		if k.length() == 0 || n > len(b) {
			return "0x" + hex.EncodeToString(whole)
		}
		parts = append(parts, k.text(b[:n]))
		b = b[n:]
	}
	if len(parts) == 0 {
		return "0x" + hex.EncodeToString(whole)
	}
	return strings.Join(parts, " . ")
}

func (k kind) text(b []byte) string {
	switch {
	case k == kindIPv4 || k == kindIPv6:
		if a, ok := netip.AddrFromSlice(b); ok {
			return a.String()
		}
	case k == kindProto && len(b) > 0:
		return model.Protocol(b[0]).String()
	case k == kindService && len(b) >= 2:
		return strconv.Itoa(int(binary.BigEndian.Uint16(b)))
	case k == kindMark && len(b) == 4:
		return strconv.FormatUint(uint64(binary.NativeEndian.Uint32(b)), 10)
	}
	return "0x" + hex.EncodeToString(b)
}

// endpointIn reads the address and port that data of a map is.
func endpointIn(f model.Family, data []byte) netip.AddrPort {
	n := addresses[f].length
	if len(data) < n+2 {
		return netip.AddrPort{}
	}
	a, _ := netip.AddrFromSlice(data[:n])
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(data[n:]))
}
