package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// Verdicts as the kernel numbers them.
const (
	codeGoto = 0xfffffffc // NFT_GOTO, -4
	codeDrop = 0          // NF_DROP
)

// An operation is what a message does with the elements that it lists, whole or only their
// keys.
type operation struct {
	kind, flags uint16
	whole       bool
}

var (
	added   = operation{unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, true}
	deleted = operation{kind: unix.NFT_MSG_DELSETELEM}
)

// maxList is the length of a message's element list at which the next element goes to
// another message. An element has less than 512 bytes.
const maxList = attr.MaxLen - 1023

func (e *encoder) elements(o operation, id nft.SetID, n int, at func(int) *nft.Element) {
	e.lists(o, id, n, func(i int) { e.element(id, at(i), o.whole) })
}

// lists writes n elements of a set, in as many messages as they need.
func (e *encoder) lists(o operation, id nft.SetID, n int, write func(int)) {
	for next := 0; next < n; {
		e.open(o.kind, o.flags, id.Family)
		e.origins[len(e.origins)-1].element = next
		e.String(unix.NFTA_SET_ELEM_LIST_TABLE, e.table)
		e.String(unix.NFTA_SET_ELEM_LIST_SET, id.Name())
		list := e.OpenNested(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for ; next < n && len(e.Bytes)-list < maxList; next++ {
			write(next)
		}
		e.Close(list)
		e.CloseMessage()
	}
}

// element writes an element, whole or only its key.
func (e *encoder) element(id nft.SetID, el *nft.Element, whole bool) {
	l := id.Layout()
	at := e.OpenNested(unix.NFTA_LIST_ELEM)
	e.key(l, &el.Key)
	if whole {
		e.value(l.Content, &el.Value)
		if l.Comments {
			e.comment(el)
		}
	}
	e.Close(at)
	if l.Interval {
		e.intervalEnd(&el.Key)
	}
}

func (e *encoder) value(c nft.Content, v *nft.Value) {
	switch c {
	case nft.ContentVerdict:
		e.verdict(v)
	case nft.ContentEndpoint:
		e.data(func() {
			e.address(v.Endpoint.Addr())
			e.port(v.Endpoint.Port())
		})
	case nft.ContentAddress:
		e.data(func() { e.address(v.Endpoint.Addr()) })
	case nft.ContentPort:
		e.data(func() { e.Bytes = binary.BigEndian.AppendUint16(e.Bytes, v.Endpoint.Port()) })
	case nft.ContentNumber:
		e.data(func() { e.number(v.Number) })
	case nft.ContentNone:
	}
}

// intervalEnd writes the element that ends a prefix: the address after it. A prefix that
// ends with the last address has none.
func (e *encoder) intervalEnd(k *nft.Key) {
	end := model.LastAddr(k.Prefix()).Next()
	if !end.IsValid() {
		return
	}
	at := e.OpenNested(unix.NFTA_LIST_ELEM)
	e.dataValue(unix.NFTA_SET_ELEM_KEY, end.AsSlice())
	e.Uint32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	e.Close(at)
}

// key writes a key; of a prefix, its first address. [decoder.key] reads it. Connection
// counts have keys of their own (rules_count.go).
func (e *encoder) key(l *nft.Layout, k *nft.Key) {
	at := e.OpenNested(unix.NFTA_SET_ELEM_KEY)
	value := e.Open(unix.NFTA_DATA_VALUE)
	for _, f := range l.Key {
		switch f {
		case nft.FieldSource, nft.FieldDestination, nft.FieldOriginalDestination:
			e.address(k.Addr)
		case nft.FieldProtocol:
			e.Bytes = append(e.Bytes, byte(k.Protocol), 0, 0, 0)
		case nft.FieldPort, nft.FieldOriginalPort:
			e.port(k.Port)
		case nft.FieldClient:
			e.address(k.SourcePrefix().Addr())
		case nft.FieldPick, nft.FieldNumber:
			e.number(k.Pick)
		default:
			panic(fmt.Sprintf("wire: field %d of a key has no encoding", f))
		}
	}
	e.Close(value)
	e.Close(at)
}

func (e *encoder) address(a netip.Addr) {
	if a.Is4() {
		b := a.As4()
		e.Bytes = append(e.Bytes, b[:]...)
		return
	}
	b := a.As16()
	e.Bytes = append(e.Bytes, b[:]...)
}

func (e *encoder) number(n uint32) { e.Bytes = binary.NativeEndian.AppendUint32(e.Bytes, n) }

func (e *encoder) port(p uint16) {
	e.Bytes = append(binary.BigEndian.AppendUint16(e.Bytes, p), 0, 0)
}

// data writes the data of an element of a data map.
func (e *encoder) data(write func()) {
	at := e.OpenNested(unix.NFTA_SET_ELEM_DATA)
	value := e.Open(unix.NFTA_DATA_VALUE)
	write()
	e.Close(value)
	e.Close(at)
}

func (e *encoder) verdict(v *nft.Value) {
	at := e.OpenNested(unix.NFTA_SET_ELEM_DATA)
	verdict := e.OpenNested(unix.NFTA_DATA_VERDICT)
	if v.Verdict == nft.VerdictGoto {
		e.Uint32(unix.NFTA_VERDICT_CODE, codeGoto)
		at := e.Open(unix.NFTA_VERDICT_CHAIN)
		e.Bytes = append(v.Chain.AppendName(e.Bytes), 0)
		e.Close(at)
	} else {
		e.Uint32(unix.NFTA_VERDICT_CODE, codeDrop)
	}
	e.Close(verdict)
	e.Close(at)
}

// comment writes the element's comment into its userdata: type, length, text and a final
// zero.
func (e *encoder) comment(el *nft.Element) {
	at := e.Open(unix.NFTA_SET_ELEM_USERDATA)
	text := len(e.Bytes) + 2
	e.Bytes = append(el.AppendComment(append(e.Bytes, attr.CommentTag, 0)), 0)
	e.Bytes[text-1] = byte(len(e.Bytes) - text)
	e.Close(at)
}
