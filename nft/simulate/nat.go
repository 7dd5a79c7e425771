package simulate

import (
	"cmp"
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

var verdictAccept = verdict{kind: expr.VerdictAccept}

// nat translates the connection to what registers hold.
func (w *walk) nat(e *expr.NAT) (verdict, error) {
	if e.Prefix {
		return verdictBreak, undecidedError("a translation of prefixes")
	}
	source := e.Type == expr.NATTypeSourceNAT
	to := w.conn.endpoint
	if source {
		to = w.conn.seenSource
	}
	if e.RegAddrMin != 0 {
		if e.RegAddrMax != 0 && e.RegAddrMax != e.RegAddrMin {
			return verdictBreak, undecidedError("a translation to a range of addresses")
		}
		v, err := w.regs.read(e.RegAddrMin, addressFields[w.frame.family].length)
		if err != nil {
			return verdictBreak, err
		}
		a, _ := netip.AddrFromSlice(v.bytes)
		if !v.isKnown() {
			return verdictBreak, undecidedError("a translation to an unknown address")
		}
		to = netip.AddrPortFrom(a, to.Port())
	}
	if e.RegProtoMin != 0 {
		v, err := w.regs.read(e.RegProtoMin, 2)
		if err == nil && !v.isKnown() {
			err = undecidedError("a translation to an unknown port")
		}
		if err != nil {
			return verdictBreak, err
		}
		to = netip.AddrPortFrom(to.Addr(), binary.BigEndian.Uint16(v.bytes))
	}
	w.translate(source, to)
	return verdictAccept, nil
}

// masquerade translates the source to the node's address, with a port that cannot be
// predicted.
func (w *walk) masquerade() (verdict, error) {
	a, err := w.source(w.frame.out, w.via(w.frame.destination().Addr()))
	if err != nil {
		return verdictBreak, err
	}
	w.applyMasquerade(a)
	return verdictAccept, nil
}

// redirect translates the destination to the node itself.
func (w *walk) redirect(e *expr.Redir) (verdict, error) {
	if e.RegisterProtoMin == 0 {
		return w.redirectTo(0)
	}
	v, err := w.regs.read(e.RegisterProtoMin, 2)
	if err == nil && !v.isKnown() {
		err = undecidedError("a translation to an unknown port")
	}
	if err != nil {
		return verdictBreak, err
	}
	return w.redirectTo(binary.BigEndian.Uint16(v.bytes))
}

// redirectTo translates the destination to a port of the node itself; zero keeps the port.
func (w *walk) redirectTo(port uint16) (verdict, error) {
	loopback := [...]netip.Addr{model.IPv4: netip.AddrFrom4([4]byte{127, 0, 0, 1}), model.IPv6: netip.IPv6Loopback()}
	a, err := loopback[w.frame.family], error(nil)
	if w.frame.in != (Link{}) {
		nowhere := [...]netip.Addr{model.IPv4: netip.IPv4Unspecified(), model.IPv6: netip.IPv6Unspecified()}
		a, err = w.source(w.frame.in, nowhere[w.frame.family])
	}
	if err != nil {
		return verdictBreak, err
	}
	w.translate(false, netip.AddrPortFrom(a, cmp.Or(port, w.conn.endpoint.Port())))
	return verdictAccept, nil
}

// reject answers the packet and drops it.
func (w *walk) reject(e *expr.Reject) verdict {
	how := "an ICMP error"
	switch {
	case e.Type == unix.NFT_REJECT_TCP_RST:
		how = "a TCP reset"
	// The codes are port unreachable in each family, as in nft/family.go.
	case e.Type == unix.NFT_REJECT_ICMPX_UNREACH && e.Code == unix.NFT_REJECT_ICMPX_PORT_UNREACH,
		e.Type == unix.NFT_REJECT_ICMP_UNREACH && e.Code == [...]uint8{model.IPv4: 3, model.IPv6: 4}[w.frame.family]:
		how = "ICMP port unreachable"
	}
	w.noteRefused(how)
	return verdict{kind: expr.VerdictDrop}
}
