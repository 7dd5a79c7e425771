package forward

import (
	"encoding/binary"
	"net"
	"net/netip"

	"kube-vmap/model"
)

// sendTooBig reports from the router that a UDP packet from a frontend to a client was too
// big for the next link.
func (s *scene) sendTooBig(client, frontend netip.AddrPort, mtu uint16) {
	s.t.Helper()
	network, message := "ip4:icmp", []byte{3, 4, 0, 0, 0, 0, byte(mtu >> 8), byte(mtu)}
	if client.Addr().Is6() {
		network, message = "ip6:ipv6-icmp", []byte{2, 0, 0, 0, 0, 0, byte(mtu >> 8), byte(mtu)}
	}
	message = append(message, packet(frontend, client)...)
	if client.Addr().Is4() { // the kernel does it for IPv6
		binary.BigEndian.PutUint16(message[2:], checksum(message))
	}
	s.must(s.lab.Outside.Do(func() error {
		c, err := net.DialIP(network, nil, &net.IPAddr{IP: frontend.Addr().AsSlice()})
		if err != nil {
			return err
		}
		_, err = c.Write(message)
		_ = c.Close()
		return err
	}))
}

// packet returns the headers of a UDP packet of 1,500 bytes.
func packet(from, to netip.AddrPort) []byte {
	header := []byte{0x45, 0, 1500 >> 8, 1500 & 0xff, 0, 1, 0x40, 0, 64, byte(model.UDP), 0, 0}
	payload := uint16(1500 - 20)
	if from.Addr().Is6() {
		payload = 1500 - 40
		header = []byte{0x60, 0, 0, 0, byte(payload >> 8), byte(payload), byte(model.UDP), 64}
	}
	header = append(append(header, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	if from.Addr().Is4() {
		binary.BigEndian.PutUint16(header[10:], checksum(header))
	}
	for _, field := range []uint16{from.Port(), to.Port(), payload, 0} {
		header = binary.BigEndian.AppendUint16(header, field)
	}
	return header
}

// checksum is that of RFC 1071, of an even number of bytes.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
