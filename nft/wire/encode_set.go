package wire

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
)

func (e *encoder) addSet(o nft.AddSet) {
	e.setID++
	e.open(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, o.Set.Family)
	e.String(unix.NFTA_SET_TABLE, e.table)
	e.String(unix.NFTA_SET_NAME, o.Set.Name())
	e.Uint32(unix.NFTA_SET_ID, e.setID)
	e.shape(o.Set.Shape(o.Size))
	if timeout := o.Set.Layout().Expires(); timeout > 0 {
		e.Uint64(unix.NFTA_SET_TIMEOUT, uint64(timeout.Milliseconds()))
	}
	switch l := o.Set.Layout(); {
	case l.Typeof:
		e.Data(unix.NFTA_SET_USERDATA, typeofUserdata(o.Set))
	case l.Content == nft.ContentNumber:
		e.Data(unix.NFTA_SET_USERDATA, tlv(udataDataOrder, native(hostOrder)))
	}
	if list := o.Set.Layout().Expressions; list != nil {
		at := e.OpenNested(attrSetExpressions)
		for _, x := range list {
			e.expression(o.Set.Family, x, o.Set.Name())
		}
		e.Close(at)
	}
	e.CloseMessage()
}

// attrSetExpressions is NFTA_SET_EXPRESSIONS.
const attrSetExpressions = 18

// shape declares types, flags and size of a set.
func (e *encoder) shape(s nft.SetShape) {
	e.Uint32(unix.NFTA_SET_FLAGS, s.Flags)
	e.Uint32(unix.NFTA_SET_KEY_TYPE, s.KeyType)
	e.Uint32(unix.NFTA_SET_KEY_LEN, s.KeyLen)
	if s.Flags&unix.NFT_SET_MAP != 0 {
		e.Uint32(unix.NFTA_SET_DATA_TYPE, s.DataType)
		e.Uint32(unix.NFTA_SET_DATA_LEN, s.DataLen)
	}
	if s.Size == 0 {
		return
	}
	at := e.OpenNested(unix.NFTA_SET_DESC)
	e.Uint32(unix.NFTA_SET_DESC_SIZE, s.Size)
	e.Close(at)
}

// nft's numbers for the expressions of a set that is declared with typeof (nftables
// include/expression.h, proto.h; libnftnl include/libnftnl/udata.h). The kernel stores
// them and does not interpret them.
const (
	udataKeyOrder   = 0 // NFTNL_UDATA_SET_KEYBYTEORDER
	udataDataOrder  = 1 // NFTNL_UDATA_SET_DATABYTEORDER
	udataKeyTypeof  = 3
	udataDataTypeof = 4

	hostOrder = 1 // BYTEORDER_HOST_ENDIAN

	exprPayload = 7
	exprMeta    = 9
	exprConcat  = 13
	exprNumgen  = 23

	protoTH    = 11 // PROTO_DESC_TH
	fieldDport = 2  // THDR_DPORT
)

// headers are the numbers of a family's header and of its destination field.
var headers = [...]struct{ proto, daddr uint32 }{
	model.IPv4: {12, 12}, // PROTO_DESC_IP, IPHDR_DADDR
	model.IPv6: {13, 9},  // PROTO_DESC_IP6, IP6HDR_DADDR
}

// typeofUserdata describes key and data of the set by expressions. Without expressions
// for the data, nft uses those for the key as types, and cannot load what it lists.
func typeofUserdata(id nft.SetID) []byte {
	l := id.Layout()
	order, data := uint32(0), concatTypeof(id.Family, []nft.Field{nft.FieldDestination, nft.FieldPort})
	if l.Content == nft.ContentNumber {
		order, data = hostOrder, fieldTypeof(id.Family, nft.FieldNumber)
	}
	return slices.Concat(
		tlv(udataKeyOrder, native(0)),
		tlv(udataDataOrder, native(order)),
		tlv(udataKeyTypeof, concatTypeof(id.Family, l.Key)),
		tlv(udataDataTypeof, data),
	)
}

func concatTypeof(family model.Family, fields []nft.Field) []byte {
	var parts []byte
	for i, f := range fields {
		parts = append(parts, tlv(byte(i), fieldTypeof(family, f))...)
	}
	return exprTypeof(exprConcat, parts)
}

// fieldTypeof describes the expression that reads the field.
func fieldTypeof(family model.Family, f nft.Field) []byte {
	switch f {
	case nft.FieldDestination:
		return exprTypeof(exprPayload, numbers(headers[family].proto, headers[family].daddr))
	case nft.FieldProtocol:
		return exprTypeof(exprMeta, tlv(0, native(unix.NFT_META_L4PROTO)))
	case nft.FieldPort:
		return exprTypeof(exprPayload, numbers(protoTH, fieldDport))
	case nft.FieldNumber:
		return exprTypeof(exprMeta, tlv(0, native(unix.NFT_META_PRIORITY)))
	case nft.FieldPick:
		return exprTypeof(exprNumgen, numbers(unix.NFT_NG_RANDOM, maxPick, 0))
	}
	panic(fmt.Sprintf("wire: field %d has no typeof", f)) // no map of such keys has any
}

// maxPick is in a map's declaration in place of the number of endpoints, which differs
// from Service to Service.
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
