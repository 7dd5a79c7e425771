package conntrack

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
)

// rawEntry are attributes of an entry as the kernel wrote them. Zone is nil in the default
// zone; a zone of one direction is within its tuple.
type rawEntry struct {
	reply, zone, id []byte
	status          uint32 // IPS_*
}

// key returns what identifies the entry to the kernel. Its tuple is that of replies, because
// that has the endpoint: a new flow may be kept at the same place of memory, and
// then has the same original tuple and the same id.
func (r rawEntry) key() string {
	var e attr.Encoder
	e.Data(unix.NLA_F_NESTED|ctaTupleReply, r.reply)
	if r.zone != nil {
		e.Data(ctaZone, r.zone)
	}
	e.Data(ctaID, r.id)
	return string(e.Bytes)
}

// decode decodes an entry, without its key, from what follows the netlink header. It
// reports false if the entry has no addresses and ports. Attributes are read up to the
// first one that is malformed.
func decode(data []byte) (e Entry, r rawEntry, ok bool) {
	var d attr.Decoder
	for kind, value := range d.Attributes(d.Body(data)) {
		switch kind {
		case ctaTupleOrig:
			t := decodeTuple(value)
			e.Protocol, e.Original = t.protocol, netip.AddrPortFrom(t.dst, t.dstPort)
		case ctaTupleReply:
			r.reply = value
			t := decodeTuple(value)
			e.Reply = netip.AddrPortFrom(t.src, t.srcPort)
		case ctaStatus:
			r.status = d.Uint32(value)
			e.Offloaded = r.status&statusOffloaded != 0
		case ctaZone:
			r.zone = value
		case ctaID:
			r.id = value
		}
	}
	return e, r, e.Original.Addr().IsValid() && e.Reply.Addr().IsValid() && r.id != nil
}

// A tuple is one direction of an entry.
type tuple struct {
	protocol         model.Protocol
	src, dst         netip.Addr
	srcPort, dstPort uint16
}

func decodeTuple(b []byte) (t tuple) {
	var d attr.Decoder
	for kind, value := range d.Attributes(b) {
		switch kind {
		case ctaTupleIP:
			t.decodeAddresses(value)
		case ctaTupleProto:
			t.decodeProtocol(value)
		}
	}
	return t
}

func (t *tuple) decodeAddresses(b []byte) {
	var d attr.Decoder
	for kind, value := range d.Attributes(b) {
		switch kind {
		case ctaIPv4Src, ctaIPv6Src:
			t.src, _ = netip.AddrFromSlice(value)
		case ctaIPv4Dst, ctaIPv6Dst:
			t.dst, _ = netip.AddrFromSlice(value)
		}
	}
}

func (t *tuple) decodeProtocol(b []byte) {
	var d attr.Decoder
	for kind, value := range d.Attributes(b) {
		switch kind {
		case ctaProtoNum:
			t.protocol = model.Protocol(d.Uint8(value))
		case ctaProtoSrcPort:
			t.srcPort = d.Uint16(value)
		case ctaProtoDstPort:
			t.dstPort = d.Uint16(value)
		}
	}
}

// decodeState returns the state of a connection of TCP or SCTP.
func decodeState(b []byte) (state byte) {
	var d attr.Decoder
	for kind, value := range d.Attributes(b) {
		if kind != ctaProtoInfoTCP && kind != ctaProtoInfoSCTP {
			continue
		}
		for kind, value := range d.Attributes(value) {
			if kind == ctaInfoState {
				state = d.Uint8(value)
			}
		}
	}
	return state
}
