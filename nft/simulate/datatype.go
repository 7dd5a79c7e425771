package simulate

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// A dataType is one of nft's data types (nftables include/datatype.h).
type dataType uint32

const (
	typeIPv4    dataType = 7
	typeIPv6    dataType = 8
	typeProto   dataType = 12
	typeService dataType = 13
	typeMark    dataType = 19
	typeClassID dataType = 23
)

// length returns the length of the type in a concatenation, with padding; zero if it is
// unknown.
func (k dataType) length() int {
	switch k {
	case typeIPv4, typeProto, typeService, typeMark, typeClassID:
		return 4
	case typeIPv6:
		return 16
	}
	return 0
}

// dataTypes returns the types of a concatenation.
func dataTypes(number uint32) (all []dataType) {
	const bits = 6 // of each type
	for ; number > 0; number >>= bits {
		all = append([]dataType{dataType(number & (1<<bits - 1))}, all...)
	}
	return all
}

// valueText returns a key or data as nft prints it; as hexadecimal digits if its type is
// unknown.
func valueText(number uint32, b []byte) string {
	kinds := dataTypes(number)
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

func (k dataType) text(b []byte) string {
	switch {
	case k == typeIPv4 || k == typeIPv6:
		if a, ok := netip.AddrFromSlice(b); ok {
			return a.String()
		}
	case k == typeProto && len(b) > 0:
		return model.Protocol(b[0]).String()
	case k == typeService && len(b) >= 2:
		return strconv.Itoa(int(binary.BigEndian.Uint16(b)))
	case k == typeMark && len(b) == 4:
		return strconv.FormatUint(uint64(binary.NativeEndian.Uint32(b)), 10)
	case k == typeClassID && len(b) == 4:
		return nft.ClassID(binary.NativeEndian.Uint32(b))
	}
	return "0x" + hex.EncodeToString(b)
}

// decodeAddrPort decodes data that is an address and a port.
func decodeAddrPort(f model.Family, data []byte) netip.AddrPort {
	n := addressFields[f].length
	if len(data) < n+2 {
		return netip.AddrPort{}
	}
	a, _ := netip.AddrFromSlice(data[:n])
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(data[n:]))
}
