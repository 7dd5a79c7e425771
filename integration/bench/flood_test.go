package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
)

const (
	synsPerSecond = 10_000
	// floodClients is how many clients it has.
	floodClients = 1 << 17
)

// A flood is first packets of TCP to the sleeping Services in turns, from one client after the other.
type flood struct{ sent int }

// run sends until ctx ends, in the network namespace of the calling thread.
func (f *flood) run(ctx context.Context) (err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	for start := time.Now(); ctx.Err() == nil; <-time.After(10 * time.Millisecond) {
		for due := int(time.Since(start).Seconds() * synsPerSecond); f.sent < due; f.sent++ {
			from := lab.After(externalBase, f.sent%floodClients)
			to := lab.After(sleepingRange.Addr(), f.sent%sleepingServices)
			packet := firstPacket(from, to, uint16(1024+f.sent/floodClients))
			if err := unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstPacket returns a SYN in a packet of IPv4 (RFC 791, RFC 9293). The kernel adds the checksum of the
// former.
func firstPacket(from, to netip.Addr, port uint16) []byte {
	b := []byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, unix.IPPROTO_TCP, 0, 0}
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, servicePort)
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 0, 5<<4, 2, 0xff, 0xff, 0, 0, 0, 0)
	sum := uint32(unix.IPPROTO_TCP + 20) // and the addresses: the pseudo header
	for i := 12; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(b[36:], ^uint16(sum))
	return b
}
