package conntrack

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// rawEntry are attributes of an entry as the kernel wrote them. Zone is nil in the
// default zone, and where a zone is of one direction it is within its tuple.
type rawEntry struct {
	reply, zone, id []byte
}

// key is what identifies the entry to the kernel. The tuple is that of replies,
// because it has the endpoint: a flow that began anew may be kept in the same
// place of memory, and then has the same original tuple and the same id.
func (r rawEntry) key() string {
	b := make([]byte, 0, 3*unix.SizeofNlAttr+len(r.reply)+len(r.zone)+len(r.id)+4)
	b = appendAttribute(b, unix.NLA_F_NESTED|ctaTupleReply, r.reply)
	if r.zone != nil {
		b = appendAttribute(b, ctaZone, r.zone)
	}
	return string(appendAttribute(b, ctaID, r.id))
}

// decode reads an entry, without its key, from what follows the netlink header.
// It reports false if there is none with addresses and ports.
func decode(data []byte) (e Entry, r rawEntry, ok bool) {
	if len(data) < nfHeaderLen {
		return e, r, false
	}
	for kind, value := range attributes(data[nfHeaderLen:]) {
		switch kind {
		case ctaTupleOrig:
			t := decodeTuple(value)
			e.Protocol, e.Original = t.protocol, netip.AddrPortFrom(t.dst, t.dstPort)
		case ctaTupleReply:
			r.reply = value
			t := decodeTuple(value)
			e.Reply = netip.AddrPortFrom(t.src, t.srcPort)
		case ctaZone:
			r.zone = value
		case ctaID:
			r.id = value
		}
	}
	return e, r, e.Original.Addr().IsValid() && e.Reply.Addr().IsValid() && r.id != nil
}

// tuple is one direction of an entry.
type tuple struct {
	protocol         model.Protocol
	src, dst         netip.Addr
	srcPort, dstPort uint16
}

func decodeTuple(b []byte) (t tuple) {
	for kind, value := range attributes(b) {
		switch kind {
		case ctaTupleIP:
			t.src, t.dst = decodeAddresses(value)
		case ctaTupleProto:
			t.decodeProtocol(value)
		}
	}
	return t
}

func decodeAddresses(b []byte) (src, dst netip.Addr) {
	for kind, value := range attributes(b) {
		switch kind {
		case ctaIPv4Src, ctaIPv6Src:
			src, _ = netip.AddrFromSlice(value)
		case ctaIPv4Dst, ctaIPv6Dst:
			dst, _ = netip.AddrFromSlice(value)
		}
	}
	return src, dst
}

func (t *tuple) decodeProtocol(b []byte) {
	for kind, value := range attributes(b) {
		switch {
		case kind == ctaProtoNum && len(value) == 1:
			t.protocol = model.Protocol(value[0])
		case kind == ctaProtoSrcPort && len(value) == 2:
			t.srcPort = binary.BigEndian.Uint16(value)
		case kind == ctaProtoDstPort && len(value) == 2:
			t.dstPort = binary.BigEndian.Uint16(value)
		}
	}
}

// nfHeaderLen is the length of struct nfgenmsg.
const nfHeaderLen = 4

// attributes yields each attribute of b, flags taken off, up to one that is
// garbled.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			n := int(binary.NativeEndian.Uint16(b))
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if n < unix.SizeofNlAttr || n > len(b) || !yield(kind, b[unix.SizeofNlAttr:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// appendAttribute writes an attribute, padded.
func appendAttribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}
