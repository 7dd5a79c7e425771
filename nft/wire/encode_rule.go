package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

func (e *encoder) addRule(o nft.AddRule) {
	for i := range o.Rule {
		if s := &o.Rule[i]; s.HasSet() {
			e.anonymousSet(o.Chain.Family, s)
		}
	}
	e.open(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, o.Chain.Family)
	e.String(unix.NFTA_RULE_TABLE, e.table)
	e.String(unix.NFTA_RULE_CHAIN, o.Chain.Name())
	list := e.OpenNested(unix.NFTA_RULE_EXPRESSIONS)
	for i := range o.Rule {
		e.statement(o.Chain.Family, &o.Rule[i])
	}
	e.Close(list)
	e.Data(unix.NFTA_RULE_USERDATA, fingerprintUserdata(o.Rule.Fingerprint()))
	e.CloseMessage()
}

// statement appends the expressions of a statement. A look-up in an anonymous set refers
// to the one written last.
func (e *encoder) statement(f model.Family, s *nft.Statement) {
	for _, x := range s.Expressions {
		if l, ok := x.(*expr.Lookup); ok && s.HasSet() {
			own := *l
			own.SetID = e.setID
			x = &own
		}
		e.expression(f, x, s.Text)
	}
}

// expression appends one expression of a list.
func (e *encoder) expression(f model.Family, x any, of string) {
	b, err := marshal(f, x)
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s: %w", of, err))
	}
	e.Data(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, b)
}

func marshal(f model.Family, x any) ([]byte, error) {
	switch x := x.(type) {
	case nft.PayloadWrite:
		return marshalPayloadWrite(x), nil
	case expr.Any:
		return expr.Marshal(nft.FamilyNumber(f), x)
	}
	return nil, fmt.Errorf("%T is no expression", x)
}

// marshalPayloadWrite encodes the expression that changes a packet's header
// (NFTA_PAYLOAD_*, include/uapi/linux/netfilter/nf_tables.h). The library's own omits the
// flags if the header itself does not have a checksum.
func marshalPayloadWrite(w nft.PayloadWrite) []byte {
	var flags uint32
	if w.TransportChecksumToo {
		flags = unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR
	}
	var e attr.Encoder
	e.String(unix.NFTA_EXPR_NAME, "payload")
	at := e.OpenNested(unix.NFTA_EXPR_DATA)
	e.Uint32(unix.NFTA_PAYLOAD_SREG, w.Register)
	e.Uint32(unix.NFTA_PAYLOAD_BASE, uint32(w.Base))
	e.Uint32(unix.NFTA_PAYLOAD_OFFSET, w.Offset)
	e.Uint32(unix.NFTA_PAYLOAD_LEN, w.Length)
	e.Uint32(unix.NFTA_PAYLOAD_CSUM_TYPE, w.ChecksumType)
	e.Uint32(unix.NFTA_PAYLOAD_CSUM_OFFSET, w.ChecksumOffset)
	e.Uint32(unix.NFTA_PAYLOAD_CSUM_FLAGS, flags)
	e.Close(at)
	return e.Bytes
}

// fingerprintTag is the type of the fingerprint in a rule's userdata, which is a list of
// type, length and value. No other program uses it, and nft skips types that it does not
// know.
const fingerprintTag = 0x76

func fingerprintUserdata(p nft.Fingerprint) []byte {
	return binary.BigEndian.AppendUint64([]byte{fingerprintTag, 8}, uint64(p))
}

// hostOrderKeys declares a set's keys to nft as numbers in this machine's byte order; it
// lists them wrongly otherwise.
var hostOrderKeys = tlv(udataKeyOrder, native(hostOrder))

// native is a number in this machine's byte order.
func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// anonymousSet writes the set that belongs to a statement, to be used by the rule that
// follows: a verdict map from numbers to chains, or a set of protocols.
func (e *encoder) anonymousSet(f model.Family, s *nft.Statement) {
	e.setID++
	name, shape := s.Set()
	e.open(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, f)
	e.String(unix.NFTA_SET_TABLE, e.table)
	e.String(unix.NFTA_SET_NAME, name)
	e.Uint32(unix.NFTA_SET_ID, e.setID)
	e.shape(shape)
	if s.Choices != nil {
		e.Data(unix.NFTA_SET_USERDATA, hostOrderKeys)
	}
	e.CloseMessage()

	e.open(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, f)
	e.String(unix.NFTA_SET_ELEM_LIST_TABLE, e.table)
	e.String(unix.NFTA_SET_ELEM_LIST_SET, name)
	e.Uint32(unix.NFTA_SET_ELEM_LIST_SET_ID, e.setID)
	list := e.OpenNested(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	for i, c := range s.Choices {
		elem := e.OpenNested(unix.NFTA_LIST_ELEM)
		e.dataValue(unix.NFTA_SET_ELEM_KEY, native(uint32(i)))
		e.verdict(&nft.Value{Verdict: nft.VerdictGoto, Chain: c})
		e.Close(elem)
	}
	for _, p := range s.Protocols {
		elem := e.OpenNested(unix.NFTA_LIST_ELEM)
		e.dataValue(unix.NFTA_SET_ELEM_KEY, []byte{byte(p)})
		e.Close(elem)
	}
	e.Close(list)
	e.CloseMessage()
}

// dataValue writes a key or data of these bytes.
func (e *encoder) dataValue(kind uint16, b []byte) {
	at := e.OpenNested(kind)
	e.Data(unix.NFTA_DATA_VALUE, b)
	e.Close(at)
}
