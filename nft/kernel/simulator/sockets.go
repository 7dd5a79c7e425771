package simulator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"github.com/mdlayher/netlink"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/simulate"
)

const (
	sockDiagByFamily = 20   // SOCK_DIAG_BY_FAMILY
	diagRequestSize  = 56   // struct inet_diag_req_v2
	diagMessageSize  = 72   // struct inet_diag_msg
	diagSocketOption = 22   // INET_DIAG_SOCKOPT, since Linux 5.16
	transparentBit   = 0x20 // of struct inet_diag_sockopt
)

// Socket implements [simulate.NodeState]: the kernel looks the socket up as it does for a
// packet.
func (s *state) Socket(p model.Protocol, from, to netip.AddrPort) (found simulate.Socket, err error) {
	conn, err := s.diag(p, model.FamilyOf(to.Addr()))
	if err != nil {
		return found, err
	}
	err = socket.Ask(conn, diagRequest(p, from, to, 0, ^uint32(0)), func(m netlink.Message) error {
		found, err = decodeSocket(m.Data)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return simulate.Socket{}, nil
	}
	if err != nil {
		return found, fmt.Errorf("look up the socket for %s: %w", to, err)
	}
	return found, nil
}

// diag returns a socket to ask for those of a protocol. Whether the kernel can answer is asked
// first, because the answer is the same if there is no socket.
func (s *state) diag(p model.Protocol, f model.Family) (*netlink.Conn, error) {
	if s.conn == nil {
		conn, err := socket.OpenDiag(s.netNS)
		if err != nil {
			return nil, err
		}
		s.conn, s.diagnosed = conn, map[byte]bool{}
	}
	if s.diagnosed[byte(p)] {
		return s.conn, nil
	}
	none := [...]netip.AddrPort{
		model.IPv4: netip.AddrPortFrom(netip.IPv4Unspecified(), 0),
		model.IPv6: netip.AddrPortFrom(netip.IPv6Unspecified(), 0),
	}[f]
	err := socket.Ask(s.conn, diagRequest(p, none, none, netlink.Dump, 0), func(netlink.Message) error { return nil })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, simulate.Undecided("a match of the socket of the packet, for which the kernel lacks sock_diag")
	}
	s.diagnosed[byte(p)] = err == nil
	return s.conn, err
}

// diagRequest asks for the socket of a packet, or for those in some states. The kernel takes the
// packet's source as the remote end, which for UDP is the first of the two.
func diagRequest(p model.Protocol, from, to netip.AddrPort, flags netlink.HeaderFlags, states uint32) netlink.Message {
	b := make([]byte, diagRequestSize)
	b[0], b[1] = nft.FamilyNumber(model.FamilyOf(to.Addr())), byte(p)
	binary.NativeEndian.PutUint32(b[4:], states)
	first, second := to, from
	if p == model.UDP {
		first, second = from, to
	}
	binary.BigEndian.PutUint16(b[8:], first.Port())
	binary.BigEndian.PutUint16(b[10:], second.Port())
	copy(b[12:], first.Addr().AsSlice())
	copy(b[28:], second.Addr().AsSlice())
	const noCookie = 48
	for i := noCookie; i < len(b); i++ {
		b[i] = 0xff
	}
	return netlink.Message{Header: netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | flags}, Data: b}
}

// decodeSocket decodes a struct inet_diag_msg and the options of the socket.
func decodeSocket(b []byte) (found simulate.Socket, err error) {
	if len(b) < diagMessageSize {
		return found, errors.New("a socket without a description")
	}
	const addr, addrLen = 8, 16
	local := netip.AddrFrom16([16]byte(b[addr:][:addrLen]))
	found = simulate.Socket{Found: true, Wildcard: local.IsUnspecified()}
	var d attr.Decoder
	option := d.Find(b[diagMessageSize:], diagSocketOption)
	if d.Err() != nil || len(option) == 0 {
		return found, errors.Join(d.Err(), simulate.Undecided("a match of the options of a socket"))
	}
	found.Transparent = option[0]&transparentBit != 0
	return found, nil
}
