package invalid

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
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

// send sends the segment from a host, whose TCP does not know of it.
func (s segment) send(h *lab.Host) error {
	network := "ip6:tcp"
	if s.from.Addr().Is4() {
		network = "ip4:tcp"
	}
	return h.Do(func() error {
		c, err := net.ListenIP(network, &net.IPAddr{IP: s.from.Addr().AsSlice()})
		if err != nil {
			return err
		}
		_, err = c.WriteToIP(s.encode(), &net.IPAddr{IP: s.to.Addr().AsSlice()})
		return errors.Join(err, c.Close())
	})
}
