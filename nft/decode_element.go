package nft

import (
	"cmp"
	"encoding/binary"
	"errors"
	"net/netip"
	"unique"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

var errLayout = errors.New("element does not fit its set's layout")

// element reads one element; false if it could not.
func (d *decoder) element(id SetID, b []byte) (Element, bool) {
	var el Element
	var flags uint32
	if d.err != nil {
		return el, false
	}
	d.nested(b, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			d.nested(value, func(_ uint16, value []byte) { d.key(id, &el.Key, value) })
		case unix.NFTA_SET_ELEM_DATA:
			d.nested(value, func(kind uint16, value []byte) { d.value(id, &el.Value, kind, value) })
		case unix.NFTA_SET_ELEM_USERDATA:
			el.Comment = commentIn(value)
		case unix.NFTA_SET_ELEM_FLAGS:
			d.number(&flags, value)
		}
	})
	if id.layout().interval {
		el.Key.Bits = startMark
		if flags&elementEnds != 0 {
			el.Key.Bits = endMark
		}
	}
	return el, d.err == nil
}

func (d *decoder) key(id SetID, k *Key, b []byte) {
	l, fam := id.layout(), id.family()
	if uint32(len(b)) != l.keyLen(fam) {
		d.err = cmp.Or(d.err, errLayout)
		return
	}
	for _, f := range l.key {
		part := b[:f.length(fam)]
		b = b[len(part):]
		switch f {
		case fieldSource, fieldDestination:
			a, _ := netip.AddrFromSlice(part) // 4 or 16 bytes
			if k.Addr.IsValid() && k.Addr != a {
				*k = Key{} // ours have the same address twice
				return
			}
			k.Addr = a
		case fieldClient:
			a, _ := netip.AddrFromSlice(part)
			k.Source = unique.Make(netip.PrefixFrom(a, id.sourceBits()))
		case fieldProtocol:
			k.Protocol = model.Protocol(part[0])
		case fieldPort:
			k.Port = binary.BigEndian.Uint16(part)
		case fieldOriginalDestination, fieldOriginalPort:
			d.err = cmp.Or(d.err, errLayout) // see DecodeCounted
		case fieldPick:
			k.Pick = binary.NativeEndian.Uint32(part)
		}
	}
}

func (d *decoder) value(id SetID, v *Value, kind uint16, b []byte) {
	l, fam := id.layout(), id.family()
	switch {
	case kind == unix.NFTA_DATA_VERDICT && l.content == contentVerdict:
		d.verdict(id.Family, v, b)
	case kind == unix.NFTA_DATA_VALUE && l.content.isData() && uint32(len(b)) == l.dataLen(fam):
		var addr netip.Addr
		var port uint16
		if l.content != contentPort {
			addr, _ = netip.AddrFromSlice(b[:fam.addrLen])
			b = b[fam.addrLen:]
		}
		if l.content != contentAddress {
			port = binary.BigEndian.Uint16(b)
		}
		v.Endpoint = netip.AddrPortFrom(addr, port)
	default:
		d.err = cmp.Or(d.err, errLayout)
	}
}

// verdict reads a verdict. One that we never write is read as none, which
// compares unequal to any of ours.
func (d *decoder) verdict(f model.Family, v *Value, b []byte) {
	var code uint32
	var chain string
	d.nested(b, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_VERDICT_CODE:
			d.number(&code, value)
		case unix.NFTA_VERDICT_CHAIN:
			chain = text(value)
		}
	})
	switch code {
	case codeGoto:
		*v = Value{Verdict: VerdictGoto, Chain: chainNamed(f, chain)}
	case codeDrop:
		*v = Value{Verdict: VerdictDrop}
	}
}

// commentIn finds the comment in an element's userdata.
func commentIn(b []byte) string {
	for len(b) >= 2 {
		kind, n := b[0], int(b[1])
		if len(b) < 2+n {
			return ""
		}
		if kind == 0 {
			return text(b[2 : 2+n])
		}
		b = b[2+n:]
	}
	return ""
}
