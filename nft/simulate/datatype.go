package simulate

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"

	"kube-vmap/model"
)

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

// lengths are those of values without padding.
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

func decodeAddrPort(f model.Family, data []byte) netip.AddrPort {
	n := addressFields[f].length
	if len(data) < n+2 {
		return netip.AddrPort{}
	}
	a, _ := netip.AddrFromSlice(data[:n])
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(data[n:]))
}
