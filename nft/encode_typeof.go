package nft

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Numbers by which nft describes the expressions of a set that is declared with
// typeof (nftables include/expression.h, proto.h; libnftnl include/libnftnl/
// udata.h). The kernel keeps them without reading them.
const (
	udataKeyOrder   = 0 // NFTNL_UDATA_SET_KEYBYTEORDER
	udataDataOrder  = 1
	udataKeyTypeof  = 3
	udataDataTypeof = 4

	exprVerdict = 1
	exprPayload = 7
	exprMeta    = 9
	exprConcat  = 13
	exprNumgen  = 23

	protoTH    = 11 // PROTO_DESC_TH
	fieldDport = 2  // THDR_DPORT
)

// typeofUserdata describes key and data of the set by expressions. Without those
// of the data, nft takes those of the key for types, and cannot load what it
// lists. A verdict among them crashes nft 0.9.8; so do the rules of sticky
// endpoints, beside which alone there are such maps.
func (id SetID) typeofUserdata() []byte {
	l, fam := id.layout(), id.family()
	out := slices.Concat(
		tlv(udataKeyOrder, native(0)),
		tlv(udataDataOrder, native(0)),
		tlv(udataKeyTypeof, concatTypeof(fam, l.key)),
	)
	data := exprTypeof(exprVerdict, nil)
	if l.content == contentEndpoint {
		data = concatTypeof(fam, []field{fieldDestination, fieldPort})
	}
	return append(out, tlv(udataDataTypeof, data)...)
}

// concatTypeof describes a concatenation of fields.
func concatTypeof(fam *family, fields []field) []byte {
	var parts []byte
	for i, f := range fields {
		parts = append(parts, tlv(byte(i), f.typeof(fam))...)
	}
	return exprTypeof(exprConcat, parts)
}

// typeof describes the expression that reads the field.
func (f field) typeof(fam *family) []byte {
	switch f {
	case fieldProtocol:
		return exprTypeof(exprMeta, tlv(0, native(unix.NFT_META_L4PROTO)))
	case fieldPort:
		return exprTypeof(exprPayload, numbers(protoTH, fieldDport))
	case fieldPick:
		return exprTypeof(exprNumgen, numbers(unix.NFT_NG_RANDOM, maxPick, 0))
	}
	return exprTypeof(exprPayload, numbers(fam.protoDesc, fam.protoDaddr))
}

// maxPick stands in a map's declaration for the number of endpoints, which is
// another one for each Service.
const maxPick = 65536

func exprTypeof(kind uint32, data []byte) []byte {
	return slices.Concat(tlv(0, native(kind)), tlv(1, data))
}

// numbers are 32-bit values under the types 0, 1, 2...
func numbers(values ...uint32) []byte {
	var out []byte
	for i, v := range values {
		out = append(out, tlv(byte(i), binary.NativeEndian.AppendUint32(nil, v))...)
	}
	return out
}

// tlv is a piece of userdata: type, length, value.
func tlv(kind byte, value []byte) []byte {
	return append([]byte{kind, byte(len(value))}, value...)
}
