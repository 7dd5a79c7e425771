package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"unique"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

var errLayout = errors.New("element does not fit its set's layout")

// DecodeElements appends the elements that a message of a dump of a set holds. One that
// a [nft.Key] cannot describe has the zero key. Keys and values of another form than the
// set's layout are an error.
func DecodeElements(id nft.SetID, list []nft.Element, data []byte) ([]nft.Element, error) {
	var d decoder
	for element := range d.list(data) {
		if el, ok := d.element(id, element); ok {
			list = append(list, el)
		}
	}
	if err := d.Err(); err != nil {
		return list, fmt.Errorf("decode elements of %s: %w", id.Name(), err)
	}
	return list, nil
}

// list yields the elements that a message lists.
func (d *decoder) list(message []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for kind, list := range d.Attributes(d.Body(message)) {
			if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				continue
			}
			for _, element := range d.Attributes(list) {
				if !yield(element) {
					return
				}
			}
		}
	}
}

// element reads one element, and reports whether it and all earlier ones could be read.
func (d *decoder) element(id nft.SetID, b []byte) (nft.Element, bool) {
	var el nft.Element
	var flags uint32
	if d.Err() != nil {
		return el, false
	}
	for kind, value := range d.Attributes(b) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			for _, value := range d.Attributes(value) {
				d.key(id, &el.Key, value)
			}
		case unix.NFTA_SET_ELEM_DATA:
			for kind, value := range d.Attributes(value) {
				d.value(id, &el.Value, kind, value)
			}
		case unix.NFTA_SET_ELEM_USERDATA:
			el.Comment = attr.String(attr.Userdata(value, attr.CommentTag))
		case unix.NFTA_SET_ELEM_FLAGS:
			flags = d.Uint32(value)
		}
	}
	if id.Layout().Interval {
		el.Key.Bits = startMark
		if flags&unix.NFT_SET_ELEM_INTERVAL_END != 0 {
			el.Key.Bits = endMark
		}
	}
	return el, d.Err() == nil
}

// key reads the format of [encoder.key].
func (d *decoder) key(id nft.SetID, k *nft.Key, b []byte) {
	if uint32(len(b)) != id.KeyLen() {
		d.Fail(errLayout)
		return
	}
	for _, f := range id.Layout().Key {
		part := b[:f.Len(id.Family)]
		b = b[len(part):]
		switch f {
		case nft.FieldSource, nft.FieldDestination, nft.FieldOriginalDestination:
			a, _ := netip.AddrFromSlice(part) // 4 or 16 bytes
			if k.Addr.IsValid() && k.Addr != a {
				*k = nft.Key{} // ours have the same address twice
				return
			}
			k.Addr = a
		case nft.FieldClient:
			a, _ := netip.AddrFromSlice(part)
			k.Source = unique.Make(netip.PrefixFrom(a, id.SourceBits()))
		case nft.FieldProtocol:
			k.Protocol = model.Protocol(part[0])
		case nft.FieldPort, nft.FieldOriginalPort:
			k.Port = binary.BigEndian.Uint16(part)
		case nft.FieldPick, nft.FieldNumber:
			k.Pick = binary.NativeEndian.Uint32(part)
		default:
			panic(fmt.Sprintf("wire: field %d of a key has no decoding", f))
		}
	}
}

func (d *decoder) value(id nft.SetID, v *nft.Value, kind uint16, b []byte) {
	c := id.Layout().Content
	switch {
	case kind == unix.NFTA_DATA_VERDICT && c == nft.ContentVerdict:
		d.verdict(id.Family, v, b)
	case kind == unix.NFTA_DATA_VALUE && c == nft.ContentNumber && uint32(len(b)) == id.DataLen():
		v.Number = binary.NativeEndian.Uint32(b)
	case kind == unix.NFTA_DATA_VALUE && c.IsData() && uint32(len(b)) == id.DataLen():
		var addr netip.Addr
		var port uint16
		if c != nft.ContentPort {
			n := nft.FieldDestination.Len(id.Family)
			addr, _ = netip.AddrFromSlice(b[:n])
			b = b[n:]
		}
		if c != nft.ContentAddress {
			port = binary.BigEndian.Uint16(b)
		}
		v.Endpoint = netip.AddrPortFrom(addr, port)
	default:
		d.Fail(errLayout)
	}
}

// verdict reads a verdict. One that the rule set never uses becomes VerdictNone, which
// differs from all that it uses.
func (d *decoder) verdict(f model.Family, v *nft.Value, b []byte) {
	var code uint32
	var chain string
	for kind, value := range d.Attributes(b) {
		switch kind {
		case unix.NFTA_VERDICT_CODE:
			code = d.Uint32(value)
		case unix.NFTA_VERDICT_CHAIN:
			chain = attr.String(value)
		}
	}
	switch code {
	case codeGoto:
		*v = nft.Value{Verdict: nft.VerdictGoto, Chain: nft.ChainNamed(f, chain)}
	case codeDrop:
		*v = nft.Value{Verdict: nft.VerdictDrop}
	}
}

// SortElements sorts the listing of one set by key, and drops the repetitions that a dump
// may have. Starts and ends of intervals become prefixes.
func SortElements(id nft.SetID, list []nft.Element) []nft.Element {
	list = nft.SortByKey(list)
	if id.Layout().Interval {
		return joinIntervals(list)
	}
	return slices.CompactFunc(list, func(a, b nft.Element) bool { return a.Key == b.Key })
}

// endMark and startMark are in Key.Bits of the elements of an interval set before they
// are joined. The end of one interval sorts before the start of the next one.
const (
	endMark   = 0
	startMark = 255
)

// joinIntervals turns starts and ends into prefixes.
func joinIntervals(list []nft.Element) []nft.Element {
	var out []nft.Element
	for i, el := range list {
		if el.Key.Bits != startMark {
			continue
		}
		el.Key = prefixKey(el.Key.Addr, list[i+1:])
		out = append(out, el)
	}
	return out
}

// prefixKey is the key of the prefix that begins at first and ends at the first of the
// marks that follow, or never. It is the zero key if that is not a prefix.
func prefixKey(first netip.Addr, marks []nft.Element) nft.Key {
	for bits := first.BitLen(); bits >= 0 && first.IsValid(); bits-- {
		end := model.LastAddr(netip.PrefixFrom(first, bits)).Next()
		isEnd := len(marks) > 0 && marks[0].Key.Bits == endMark && marks[0].Key.Addr == end
		if isEnd || len(marks) == 0 && !end.IsValid() {
			return nft.Key{Addr: first, Bits: uint8(bits)}
		}
	}
	return nft.Key{}
}
