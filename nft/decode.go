package nft

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// errTruncated is what a message that ends too early is refused with.
var errTruncated = errors.New("message is truncated")

// attributes calls fn for each attribute of b, nested flags taken off. It works
// in place: reading a big map back makes one call an element.
func attributes(b []byte, fn func(kind uint16, value []byte) error) error {
	for len(b) >= attrLen {
		n := int(binary.NativeEndian.Uint16(b))
		kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if n < attrLen || n > len(b) {
			return errTruncated
		}
		if err := fn(kind, b[attrLen:n]); err != nil {
			return err
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	if len(b) > 0 {
		return errTruncated
	}
	return nil
}

// body skips the header that every message of netfilter begins with.
func body(b []byte) ([]byte, error) {
	if len(b) < nfHeaderLen {
		return nil, errTruncated
	}
	return b[nfHeaderLen:], nil
}

func number(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, errTruncated
	}
	return binary.BigEndian.Uint32(b), nil
}

// text is a string attribute without its final zero.
func text(b []byte) string { return strings.TrimRight(string(b), "\x00") }

// decoder reads attributes into fields and keeps the first error.
type decoder struct{ err error }

func (d *decoder) number(to *uint32, b []byte) {
	n, err := number(b)
	if err != nil {
		d.err = cmp.Or(d.err, err)
		return
	}
	*to = n
}

func (d *decoder) nested(b []byte, fn func(kind uint16, value []byte)) {
	err := attributes(b, func(kind uint16, value []byte) error {
		fn(kind, value)
		return nil
	})
	d.err = cmp.Or(d.err, err)
}

// Decode adds what a message of a dump says to the tables: a chain, a rule or a
// set of ours. Messages about other tables change nothing. kind is the message's
// type within nf_tables, data what follows the netlink header.
func (t *Tables) Decode(f model.Family, kind uint16, data []byte) error {
	b, err := body(data)
	if err != nil {
		return err
	}
	switch kind {
	case unix.NFT_MSG_NEWTABLE:
		err = t.decodeTable(f, b)
	case unix.NFT_MSG_NEWCHAIN:
		err = t.decodeChain(f, b)
	case unix.NFT_MSG_NEWRULE:
		err = t.decodeRule(f, b)
	case unix.NFT_MSG_NEWSET:
		err = t.decodeSet(f, b)
	case unix.NFT_MSG_NEWOBJ:
		err = t.decodeObject(f, b)
	}
	if err != nil {
		return fmt.Errorf("decode message of type %d: %w", kind, err)
	}
	return nil
}

// of is the table of the family, made when something of it is first seen.
func (t *Tables) of(f model.Family) *Table {
	if t[f] == nil {
		t[f] = NewTable()
	}
	return t[f]
}

func (t *Tables) decodeTable(f model.Family, b []byte) error {
	var name string
	var flags, owner uint32
	var d decoder
	d.nested(b, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_TABLE_NAME:
			name = text(value)
		case unix.NFTA_TABLE_FLAGS:
			d.number(&flags, value)
		case attrTableOwner:
			d.number(&owner, value)
		}
	})
	if d.err == nil && name == TableName {
		state := t.of(f)
		state.Dormant, state.Protected, state.Owner = flags&unix.NFT_TABLE_F_DORMANT != 0, flags&tablePersists != 0, owner
	}
	return d.err
}

func (t *Tables) decodeChain(f model.Family, b []byte) error {
	var table, name string
	var state ChainState
	var d decoder
	d.nested(b, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_CHAIN_TABLE:
			table = text(value)
		case unix.NFTA_CHAIN_NAME:
			name = text(value)
		case unix.NFTA_CHAIN_TYPE:
			state.Hook.Type = text(value)
		case unix.NFTA_CHAIN_POLICY:
			d.number(&state.Hook.Policy, value)
		case unix.NFTA_CHAIN_HOOK:
			d.hook(&state.Hook, value)
		}
	})
	if d.err == nil && table == TableName {
		state.Rules = t.of(f).Chains[name].Rules // rules may have come before
		t.of(f).Chains[name] = state
	}
	return d.err
}

func (d *decoder) hook(h *HookState, b []byte) {
	d.nested(b, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_HOOK_HOOKNUM:
			d.number(&h.Number, value)
		case unix.NFTA_HOOK_PRIORITY:
			var p uint32
			d.number(&p, value)
			h.Priority = int32(p)
		}
	})
}

func (t *Tables) decodeRule(f model.Family, b []byte) error {
	var table, chain string
	var mark Fingerprint
	var d decoder
	d.nested(b, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_RULE_TABLE:
			table = text(value)
		case unix.NFTA_RULE_CHAIN:
			chain = text(value)
		case unix.NFTA_RULE_USERDATA:
			mark = fingerprintIn(value)
		}
	})
	if d.err == nil && table == TableName {
		state := t.of(f).Chains[chain]
		state.Rules = append(state.Rules, mark)
		t.of(f).Chains[chain] = state
	}
	return d.err
}

// fingerprintIn finds the fingerprint in a rule's userdata; zero if another
// program made the rule.
func fingerprintIn(userdata []byte) Fingerprint {
	for len(userdata) >= 2 {
		kind, n := userdata[0], int(userdata[1])
		if len(userdata) < 2+n {
			return 0
		}
		if kind == fingerprintTag && n == 8 {
			return Fingerprint(binary.BigEndian.Uint64(userdata[2:]))
		}
		userdata = userdata[2+n:]
	}
	return 0
}

func (t *Tables) decodeSet(f model.Family, b []byte) error {
	var table, name string
	var s SetShape
	var d decoder
	d.nested(b, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_SET_TABLE:
			table = text(value)
		case unix.NFTA_SET_NAME:
			name = text(value)
		default:
			d.shape(&s, kind, value)
		}
	})
	// An anonymous set belongs to its rule, which the fingerprint vouches for.
	if d.err == nil && table == TableName && s.Flags&setAnonymous == 0 {
		if s.Flags&setMap != 0 && s.DataType == typeVerdict.number {
			s.DataLen = 0 // kernels say how long a verdict is to them
		}
		t.of(f).Sets[name] = SetState{Shape: s}
	}
	return d.err
}

// shape reads one attribute of a set's declaration.
func (d *decoder) shape(s *SetShape, kind uint16, value []byte) {
	switch kind {
	case unix.NFTA_SET_FLAGS:
		d.number(&s.Flags, value)
	case unix.NFTA_SET_KEY_TYPE:
		d.number(&s.KeyType, value)
	case unix.NFTA_SET_KEY_LEN:
		d.number(&s.KeyLen, value)
	case unix.NFTA_SET_DATA_TYPE:
		d.number(&s.DataType, value)
	case unix.NFTA_SET_DATA_LEN:
		d.number(&s.DataLen, value)
	case unix.NFTA_SET_DESC:
		d.nested(value, func(kind uint16, value []byte) {
			if kind == unix.NFTA_SET_DESC_SIZE {
				d.number(&s.Size, value)
			}
		})
	}
}

// listed calls fn for each element that a message about some lists.
func (d *decoder) listed(b []byte, fn func(element []byte)) {
	d.nested(b, func(kind uint16, value []byte) {
		if kind == unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			d.nested(value, func(_ uint16, element []byte) { fn(element) })
		}
	})
}

// DecodeElements appends the elements that a message of a dump of a set holds.
// One that a [Key] cannot describe has the zero key. Keys and values of another
// form than the set's layout are an error.
func DecodeElements(id SetID, list []Element, data []byte) ([]Element, error) {
	b, err := body(data)
	if err != nil {
		return list, err
	}
	var d decoder
	d.listed(b, func(element []byte) {
		if el, ok := d.element(id, element); ok {
			list = append(list, el)
		}
	})
	if d.err != nil {
		return list, fmt.Errorf("decode elements of %s: %w", id.Name(), d.err)
	}
	return list, nil
}

// SortElements puts what was read of one set in order, without the repetitions
// that a dump may have. Ends of intervals become the lengths of prefixes.
func SortElements(id SetID, list []Element) []Element {
	list = sorted(list)
	if l := id.layout(); l.interval {
		return joinIntervals(list)
	}
	return slices.CompactFunc(list, sameKey)
}

// endMark stands in Key.Bits for an element that ends an interval, before
// intervals are joined; it sorts before the start of the next one.
const (
	endMark   = 0
	startMark = 255
)

// joinIntervals makes prefixes of starts and ends.
func joinIntervals(list []Element) []Element {
	var out []Element
	for i, el := range list {
		if el.Key.Bits != startMark {
			continue
		}
		el.Key = interval(el.Key.Addr, list[i+1:])
		out = append(out, el)
	}
	return out
}

// interval is the key of the prefix that begins at first and ends at the first
// of the marks that follow, or never. It is the zero key if no prefix does.
func interval(first netip.Addr, marks []Element) Key {
	for bits := first.BitLen(); bits >= 0 && first.IsValid(); bits-- {
		behind := lastAddr(netip.PrefixFrom(first, bits)).Next()
		isEnd := len(marks) > 0 && marks[0].Key.Bits == endMark && marks[0].Key.Addr == behind
		if isEnd || len(marks) == 0 && !behind.IsValid() {
			return Key{Addr: first, Bits: uint8(bits)}
		}
	}
	return Key{}
}
