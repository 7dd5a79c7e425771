package simulate

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

var verdictAccept = verdict{kind: expr.VerdictAccept}

type translation struct {
	source bool
	addrs  addrRange // zero to keep the address
	ports  portRange // zero to keep the port
	// randomPort is true if the port is not the original one, even if the range has it.
	randomPort bool
}

func (w *walk) nat(e *expr.NAT) (_ verdict, err error) {
	if e.Prefix {
		return verdictBreak, undecidedError("a translation by prefix")
	}
	n := translation{source: e.Type == expr.NATTypeSourceNAT, randomPort: e.Random || e.FullyRandom}
	if e.RegAddrMin != 0 {
		if n.addrs.from, err = w.addrIn(e.RegAddrMin, netip.Addr{}); err != nil {
			return verdictBreak, err
		}
		if n.addrs.to, err = w.addrIn(e.RegAddrMax, n.addrs.from); err != nil {
			return verdictBreak, err
		}
	}
	if n.ports, err = w.portsIn(e.RegProtoMin, e.RegProtoMax); err != nil {
		return verdictBreak, err
	}
	return w.translateTo(n)
}

// addrIn returns the address in a register; another one without a register.
func (w *walk) addrIn(register uint32, otherwise netip.Addr) (netip.Addr, error) {
	if register == 0 {
		return otherwise, nil
	}
	b, err := w.regs.readKnown(register, addressFields[w.frame.family].length, "a translation to an unknown address")
	a, _ := netip.AddrFromSlice(b)
	return a, err
}

// portIn returns the port in a register; another one without a register.
func (w *walk) portIn(register uint32, otherwise uint16) (uint16, error) {
	if register == 0 {
		return otherwise, nil
	}
	b, err := w.regs.readKnown(register, 2, "a translation to an unknown port")
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint16(b), nil
}

func (w *walk) portsIn(from, to uint32) (r portRange, err error) {
	if r.from, err = w.portIn(from, 0); err == nil {
		r.to, err = w.portIn(to, r.from)
	}
	return r, err
}

// translateTo translates the connection (nf_nat_setup_info).
func (w *walk) translateTo(e translation) (v verdict, err error) {
	current := w.conn.endpoint
	if e.source {
		current = w.conn.seenSource
	}
	if !e.source && e.randomPort && e.ports.from != e.ports.to {
		return verdictBreak, undecidedError("a translation to a random port")
	}
	a, err := newAddr(e, current.Addr())
	if err != nil {
		return verdictBreak, err
	}
	w.translate(e.source, netip.AddrPortFrom(a, newPort(e, current.Port())))
	if e.source && a != w.conn.client.Addr() && !w.position.own {
		if w.record.masquerade, err = w.isLocal(a); err != nil {
			return verdictBreak, err
		}
	}
	return verdictAccept, nil
}

// newAddr returns the address of a translation. Of a range that does not have the current one, the
// kernel picks one by a hash.
func newAddr(e translation, current netip.Addr) (netip.Addr, error) {
	switch r := e.addrs; {
	case !r.from.IsValid(), e.source && r.contains(current) && !e.randomPort:
		return current, nil
	case r.from == r.to:
		return r.from, nil
	}
	return current, undecidedError("a translation to one of several addresses")
}

// newPort returns the port of a translation (nf_nat_l4proto_unique_tuple), zero if it is
// unknown. That it is in use is not considered.
func newPort(e translation, current uint16) uint16 {
	switch r := e.ports; {
	case r == (portRange{}):
		return current
	case r.from == r.to:
		return r.from
	case !e.randomPort && r.contains(current):
		return current
	case e.source:
		return 0
	default:
		return r.from
	}
}

// masquerade translates the source to the node's address, with a port that cannot be
// predicted.
func (w *walk) masquerade() (verdict, error) {
	to := w.frame.destination().Addr()
	if to.Is4() { // nf_nat_masquerade_ipv6 goes by the destination itself
		to = w.via(to)
	}
	a, err := w.source(w.frame.out, to)
	if err != nil {
		return verdictBreak, err
	}
	w.report(path.StepMasquerade, "masquerade, the source becomes "+a.String(), Event{Step: path.Step{To: a.String()}})
	w.record.masquerade = true
	w.setTranslation(true, netip.AddrPortFrom(a, 0))
	return verdictAccept, nil
}

func (w *walk) redirect(e *expr.Redir) (verdict, error) {
	const random, randomFully = 4, 16 // NF_NAT_RANGE_PROTO_RANDOM, _RANDOM_FULLY
	ports, err := w.portsIn(e.RegisterProtoMin, e.RegisterProtoMax)
	if err != nil {
		return verdictBreak, err
	}
	return w.redirectTo(ports, e.Flags&(random|randomFully) != 0)
}

// loopbackAddrs are where the node's own packets are redirected to.
var loopbackAddrs = [...]netip.Addr{
	model.IPv4: netip.AddrFrom4([4]byte{127, 0, 0, 1}), model.IPv6: netip.IPv6Loopback(),
}

// redirectTo translates the destination to ports of the node itself; zero keeps the port.
func (w *walk) redirectTo(ports portRange, random bool) (verdict, error) {
	a, err := loopbackAddrs[w.frame.family], error(nil)
	if w.frame.in != (Link{}) {
		nowhere := [...]netip.Addr{model.IPv4: netip.IPv4Unspecified(), model.IPv6: netip.IPv6Unspecified()}
		a, err = w.source(w.frame.in, nowhere[w.frame.family])
	}
	if err != nil {
		return verdictBreak, err
	}
	if !a.IsValid() {
		w.reason.text = w.frame.in.Name + " has no address to redirect to"
		return verdict{kind: expr.VerdictDrop}, nil
	}
	return w.translateTo(translation{addrs: addrRange{a, a}, ports: ports, randomPort: random})
}

// HowReset and HowUnreachable are answers of a rejection by which a client knows that it was not
// served; HowError is any other.
const (
	HowReset       = "a TCP reset"
	HowUnreachable = "ICMP port unreachable"
	HowError       = "an ICMP error"
)

func (w *walk) reject(e *expr.Reject) (verdict, error) {
	how := HowError
	switch {
	case e.Type == unix.NFT_REJECT_TCP_RST:
		how = HowReset
	// The codes are port unreachable in each family, as in nft/family.go.
	case e.Type == unix.NFT_REJECT_ICMPX_UNREACH && e.Code == unix.NFT_REJECT_ICMPX_PORT_UNREACH,
		e.Type == unix.NFT_REJECT_ICMP_UNREACH && e.Code == [...]uint8{model.IPv4: 3, model.IPv6: 4}[w.frame.family]:
		how = HowUnreachable
	}
	return w.refuse(how), nil
}

// refuse sends a refusal, but no ICMP about what a rule has made a packet for another host (icmp_send).
func (w *walk) refuse(how string) verdict {
	if t := w.frame.packetType; how == HowReset || t == nil || t[0] == unix.PACKET_HOST {
		w.record.how, w.record.verdict = how, path.VerdictRefused
		w.report(path.StepReject, "rejected with "+how, Event{Destination: w.frame.destination()})
	}
	return verdict{kind: expr.VerdictDrop}
}
