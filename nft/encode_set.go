package nft

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Flags of sets and of elements (include/uapi/linux/netfilter/nf_tables.h).
const (
	setAnonymous = unix.NFT_SET_ANONYMOUS
	setConstant  = unix.NFT_SET_CONSTANT
	setInterval  = unix.NFT_SET_INTERVAL
	setMap       = unix.NFT_SET_MAP
	setTimeout   = unix.NFT_SET_TIMEOUT
	setDynamic   = unix.NFT_SET_EVAL
	elementEnds  = unix.NFT_SET_ELEM_INTERVAL_END
	codeGoto     = 0xfffffffc // NFT_GOTO, -4
	codeDrop     = 0          // NF_DROP
)

func (o AddSet) encode(e *encoder) {
	e.setID++
	e.message(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, o.Set.Family)
	e.text(unix.NFTA_SET_TABLE, e.table)
	e.text(unix.NFTA_SET_NAME, o.Set.Name())
	e.number(unix.NFTA_SET_ID, e.setID)
	e.shape(o.Set.shape(o.Size))
	if o.Set.layout().typeof {
		e.bytes(unix.NFTA_SET_USERDATA, o.Set.typeofUserdata())
	}
	e.close()
}

// shape declares types, flags and size of a set.
func (e *encoder) shape(s SetShape) {
	e.number(unix.NFTA_SET_FLAGS, s.Flags)
	e.number(unix.NFTA_SET_KEY_TYPE, s.KeyType)
	e.number(unix.NFTA_SET_KEY_LEN, s.KeyLen)
	if s.Flags&setMap != 0 {
		e.number(unix.NFTA_SET_DATA_TYPE, s.DataType)
		e.number(unix.NFTA_SET_DATA_LEN, s.DataLen)
	}
	if s.Size == 0 {
		return
	}
	at := e.nest(unix.NFTA_SET_DESC)
	e.number(unix.NFTA_SET_DESC_SIZE, s.Size)
	e.shut(at)
}

func (o DeleteSet) encode(e *encoder) {
	e.message(unix.NFT_MSG_DELSET, 0, o.Family)
	e.text(unix.NFTA_SET_TABLE, e.table)
	e.text(unix.NFTA_SET_NAME, o.Name)
	e.close()
}

// hostOrderKeys tells nft that a set's keys are numbers of this machine's byte
// order; it lists them wrongly otherwise (NFTNL_UDATA_SET_KEYBYTEORDER = 0,
// BYTEORDER_HOST_ENDIAN = 1).
var hostOrderKeys = append([]byte{0, 4}, native(1)...)

// choices writes an anonymous verdict map from numbers to chains, to be used by
// the rule that follows.
func (e *encoder) choices(f model.Family, chains []ChainID) {
	e.setID++
	e.message(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, f)
	e.text(unix.NFTA_SET_TABLE, e.table)
	e.text(unix.NFTA_SET_NAME, anonymousMap)
	e.number(unix.NFTA_SET_ID, e.setID)
	e.shape(SetShape{
		Flags:   setAnonymous | setConstant | setMap,
		KeyType: typeInteger.number, KeyLen: 4, DataType: typeVerdict.number,
		Size: uint32(len(chains)),
	})
	e.bytes(unix.NFTA_SET_USERDATA, hostOrderKeys)
	e.close()

	e.message(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, f)
	e.text(unix.NFTA_SET_ELEM_LIST_TABLE, e.table)
	e.text(unix.NFTA_SET_ELEM_LIST_SET, anonymousMap)
	e.number(unix.NFTA_SET_ELEM_LIST_SET_ID, e.setID)
	list := e.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	for i, c := range chains {
		elem := e.nest(unix.NFTA_LIST_ELEM)
		key := e.nest(unix.NFTA_SET_ELEM_KEY)
		e.bytes(unix.NFTA_DATA_VALUE, native(uint32(i)))
		e.shut(key)
		e.verdict(Value{Verdict: VerdictGoto, Chain: c})
		e.shut(elem)
	}
	e.shut(list)
	e.close()
}

// protocols writes an anonymous set of protocols, to be used by the rule that follows.
func (e *encoder) protocols(f model.Family, list []model.Protocol) {
	e.setID++
	e.message(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, f)
	e.text(unix.NFTA_SET_TABLE, e.table)
	e.text(unix.NFTA_SET_NAME, anonymousSet)
	e.number(unix.NFTA_SET_ID, e.setID)
	e.shape(SetShape{
		Flags: setAnonymous | setConstant, KeyType: typeProto.number, KeyLen: 1, Size: uint32(len(list)),
	})
	e.close()

	e.message(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, f)
	e.text(unix.NFTA_SET_ELEM_LIST_TABLE, e.table)
	e.text(unix.NFTA_SET_ELEM_LIST_SET, anonymousSet)
	e.number(unix.NFTA_SET_ELEM_LIST_SET_ID, e.setID)
	at := e.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	for _, p := range list {
		elem := e.nest(unix.NFTA_LIST_ELEM)
		key := e.nest(unix.NFTA_SET_ELEM_KEY)
		e.bytes(unix.NFTA_DATA_VALUE, []byte{byte(p)})
		e.shut(key)
		e.shut(elem)
	}
	e.shut(at)
	e.close()
}

func (o AddElements) encode(e *encoder) {
	e.elements(added, o.Set, len(o.Elements), func(i int) *Element { return &o.Elements[i] })
}

func (o DeleteElements) encode(e *encoder) {
	e.elements(deleted, o.Set, len(o.Elements), func(i int) *Element { return &o.Elements[i] })
}

// operation is what a message does with the elements it lists; whole or only their
// keys.
type operation struct {
	kind, flags uint16
	whole       bool
}

var (
	added   = operation{unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, true}
	deleted = operation{kind: unix.NFT_MSG_DELSETELEM}
)

// maxList is how long the attribute that lists a message's elements may grow
// before the next element goes to another message. An element has less than 512
// bytes.
const maxList = maxAttribute - 1023

// elements writes as many messages as n elements need.
func (e *encoder) elements(o operation, id SetID, n int, at func(int) *Element) {
	for next := 0; next < n; {
		e.message(o.kind, o.flags, id.Family)
		e.out.marks[len(e.out.marks)-1].element = next
		e.text(unix.NFTA_SET_ELEM_LIST_TABLE, e.table)
		e.text(unix.NFTA_SET_ELEM_LIST_SET, id.Name())
		list := e.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for ; next < n && len(e.out.Bytes)-list < maxList; next++ {
			e.element(id, at(next), o.whole)
		}
		e.shut(list)
		e.close()
	}
}

// What a goto to a chain with a short name takes, and a comment of usual length.
const (
	roomForVerdict = 36
	roomForComment = 48
)

// roomForElement is about how many bytes an element of the set takes.
func (id SetID) roomForElement() int {
	l, fam := id.layout(), id.family()
	n := 3*attrLen + int(l.keyLen(fam))
	switch l.content {
	case contentVerdict:
		n += roomForVerdict
	case contentEndpoint, contentAddress, contentPort:
		n += 2*attrLen + int(l.dataLen(fam)+3)&^3
	case contentNone:
	}
	if l.comments {
		n += roomForComment
	}
	return n
}

// element writes an element; whole or only its key.
func (e *encoder) element(id SetID, el *Element, whole bool) {
	l := id.layout()
	at := e.nest(unix.NFTA_LIST_ELEM)
	e.key(l, &el.Key)
	if whole {
		e.value(l.content, el.Value)
		if l.comments {
			e.comment(el)
		}
	}
	e.shut(at)
	if l.interval {
		e.intervalEnd(&el.Key)
	}
}

// value writes what an element carries.
func (e *encoder) value(c content, v Value) {
	switch c {
	case contentVerdict:
		e.verdict(v)
	case contentEndpoint:
		e.data(func() {
			e.address(v.Endpoint.Addr())
			e.port(v.Endpoint.Port())
		})
	case contentAddress:
		e.data(func() { e.address(v.Endpoint.Addr()) })
	case contentPort:
		e.data(func() { e.out.Bytes = binary.BigEndian.AppendUint16(e.out.Bytes, v.Endpoint.Port()) })
	case contentNone:
	}
}

// intervalEnd writes the element that ends a prefix: the address behind it. The
// last prefix of all has none.
func (e *encoder) intervalEnd(k *Key) {
	end := lastAddr(k.prefix()).Next()
	if !end.IsValid() {
		return
	}
	at := e.nest(unix.NFTA_LIST_ELEM)
	key := e.nest(unix.NFTA_SET_ELEM_KEY)
	e.bytes(unix.NFTA_DATA_VALUE, end.AsSlice())
	e.shut(key)
	e.number(unix.NFTA_SET_ELEM_FLAGS, elementEnds)
	e.shut(at)
}

// key writes a key; of a prefix, its first address.
func (e *encoder) key(l *layout, k *Key) {
	at := e.nest(unix.NFTA_SET_ELEM_KEY)
	value := e.open(unix.NFTA_DATA_VALUE)
	for _, f := range l.key {
		switch f {
		case fieldSource, fieldDestination:
			e.address(k.Addr)
		case fieldProtocol:
			e.out.Bytes = append(e.out.Bytes, byte(k.Protocol), 0, 0, 0)
		case fieldPort:
			e.port(k.Port)
		case fieldClient:
			e.address(k.source().Addr())
		case fieldPick:
			e.out.Bytes = binary.NativeEndian.AppendUint32(e.out.Bytes, k.Pick)
		}
	}
	e.shut(value)
	e.shut(at)
}

func (e *encoder) address(a netip.Addr) {
	if a.Is4() {
		b := a.As4()
		e.out.Bytes = append(e.out.Bytes, b[:]...)
		return
	}
	b := a.As16()
	e.out.Bytes = append(e.out.Bytes, b[:]...)
}

func (e *encoder) port(p uint16) {
	e.out.Bytes = append(binary.BigEndian.AppendUint16(e.out.Bytes, p), 0, 0)
}

// data writes the data of an element of a data map.
func (e *encoder) data(write func()) {
	at := e.nest(unix.NFTA_SET_ELEM_DATA)
	value := e.open(unix.NFTA_DATA_VALUE)
	write()
	e.shut(value)
	e.shut(at)
}

func (e *encoder) verdict(v Value) {
	at := e.nest(unix.NFTA_SET_ELEM_DATA)
	verdict := e.nest(unix.NFTA_DATA_VERDICT)
	if v.Verdict == VerdictGoto {
		e.number(unix.NFTA_VERDICT_CODE, codeGoto)
		at := e.open(unix.NFTA_VERDICT_CHAIN)
		e.out.Bytes = append(v.Chain.appendName(e.out.Bytes), 0)
		e.shut(at)
	} else {
		e.number(unix.NFTA_VERDICT_CODE, codeDrop)
	}
	e.shut(verdict)
	e.shut(at)
}

// comment writes the element's comment as nft keeps it in userdata: type 0, length,
// text and a final zero.
func (e *encoder) comment(el *Element) {
	at := e.open(unix.NFTA_SET_ELEM_USERDATA)
	text := len(e.out.Bytes) + 2
	e.out.Bytes = append(el.AppendComment(append(e.out.Bytes, 0, 0)), 0)
	e.out.Bytes[text-1] = byte(len(e.out.Bytes) - text)
	e.shut(at)
}
