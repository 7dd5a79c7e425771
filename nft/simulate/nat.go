package simulate

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

var accepts = verdict{kind: expr.VerdictAccept}

// nat translates the connection to what registers hold.
func (w *way) nat(e *expr.NAT) (verdict, error) {
	if e.Prefix {
		return breaks, unsaidError("a translation of prefixes")
	}
	source := e.Type == expr.NATTypeSourceNAT
	to := w.conn.endpoint
	if source {
		to = w.conn.seen
	}
	if e.RegAddrMin != 0 {
		if e.RegAddrMax != 0 && e.RegAddrMax != e.RegAddrMin {
			return breaks, unsaidError("a translation to a range of addresses")
		}
		v, err := w.regs.read(e.RegAddrMin, addresses[w.frame.family].length)
		if err != nil {
			return breaks, err
		}
		a, _ := netip.AddrFromSlice(v.bytes)
		to = netip.AddrPortFrom(a, to.Port())
	}
	if e.RegProtoMin != 0 {
		v, err := w.regs.read(e.RegProtoMin, 2)
		if err != nil {
			return breaks, err
		}
		to = netip.AddrPortFrom(to.Addr(), binary.BigEndian.Uint16(v.bytes))
	}
	w.translated(source, to)
	return accepts, nil
}

// masquerade makes the node's address the source, with a port that nobody knows
// beforehand.
func (w *way) masquerade() (verdict, error) {
	a, err := w.source(w.frame.out, w.via(w.frame.destination().Addr()))
	if err != nil {
		return breaks, err
	}
	w.masqueraded(a)
	return accepts, nil
}

// redirect makes the node itself the destination.
func (w *way) redirect(e *expr.Redir) (verdict, error) {
	loopback := [...]netip.Addr{model.IPv4: netip.AddrFrom4([4]byte{127, 0, 0, 1}), model.IPv6: netip.IPv6Loopback()}
	a, err := loopback[w.frame.family], error(nil)
	if w.frame.in != (Link{}) {
		a, err = w.source(w.frame.in, netip.Addr{})
	}
	if err != nil {
		return breaks, err
	}
	to := netip.AddrPortFrom(a, w.conn.endpoint.Port())
	if e.RegisterProtoMin != 0 {
		v, err := w.regs.read(e.RegisterProtoMin, 2)
		if err != nil {
			return breaks, err
		}
		to = netip.AddrPortFrom(a, binary.BigEndian.Uint16(v.bytes))
	}
	w.translated(false, to)
	return accepts, nil
}

// reject answers the packet and takes it away.
func (w *way) reject(e *expr.Reject) verdict {
	how := "an ICMP error"
	switch {
	case e.Type == unix.NFT_REJECT_TCP_RST:
		how = "a TCP reset"
	case e.Type == unix.NFT_REJECT_ICMPX_UNREACH && e.Code == unix.NFT_REJECT_ICMPX_PORT_UNREACH,
		e.Type == unix.NFT_REJECT_ICMP_UNREACH && e.Code == [...]uint8{model.IPv4: 3, model.IPv6: 4}[w.frame.family]:
		how = "ICMP port unreachable"
	}
	w.refused(how)
	return verdict{kind: expr.VerdictDrop}
}
