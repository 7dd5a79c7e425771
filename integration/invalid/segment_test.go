package invalid

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A segment is the part of a TCP segment (RFC 9293, 3.1) that matters here, with its addresses.
type segment struct {
	from, to netip.AddrPort
	seq, ack uint32
	flags    flags
	payload  []byte
}

// flags are the control bits of a segment.
type flags uint8

const (
	fin flags = 1 << iota
	syn
	rst
	psh
	ack
)

// next returns the sequence number of what the sender sends after the segment.
func (s segment) next() uint32 {
	n := s.seq + uint32(len(s.payload))
	if s.flags&(syn|fin) != 0 {
		n++
	}
	return n
}

// headerLen is the length of a header without options.
const headerLen = 20

// encode returns the segment as in an IP packet, with its checksum.
func (s segment) encode() []byte {
	b := make([]byte, headerLen, headerLen+len(s.payload))
	binary.BigEndian.PutUint16(b, s.from.Port())
	binary.BigEndian.PutUint16(b[2:], s.to.Port())
	binary.BigEndian.PutUint32(b[4:], s.seq)
	binary.BigEndian.PutUint32(b[8:], s.ack)
	b[12] = headerLen / 4 << 4
	b[13] = byte(s.flags)
	binary.BigEndian.PutUint16(b[14:], 1<<15-1) // the window
	b = append(b, s.payload...)
	binary.BigEndian.PutUint16(b[16:], s.checksum(b))
	return b
}

// checksum returns the checksum of RFC 9293, 3.1, over the pseudo header and b.
func (s segment) checksum(b []byte) uint16 {
	all := append(s.from.Addr().AsSlice(), s.to.Addr().AsSlice()...)
	all = binary.BigEndian.AppendUint32(all, unix.IPPROTO_TCP)
	all = binary.BigEndian.AppendUint32(all, uint32(len(b)))
	all = append(all, b...)
	if len(all)%2 == 1 {
		all = append(all, 0)
	}
	var sum uint32
	for ; len(all) > 0; all = all[2:] {
		sum += uint32(binary.BigEndian.Uint16(all))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// decode decodes a segment; false if it is none. The payload is a part of b.
func decode(from, to netip.Addr, b []byte) (segment, bool) {
	if len(b) < headerLen || int(b[12]>>4)*4 > len(b) {
		return segment{}, false
	}
	return segment{
		from:    netip.AddrPortFrom(from, binary.BigEndian.Uint16(b)),
		to:      netip.AddrPortFrom(to, binary.BigEndian.Uint16(b[2:])),
		seq:     binary.BigEndian.Uint32(b[4:]),
		ack:     binary.BigEndian.Uint32(b[8:]),
		flags:   flags(b[13]) & (fin | syn | rst | psh | ack),
		payload: b[int(b[12]>>4)*4:],
	}, true
}
