package simulate

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
	"kube-vmap/nft/simulate/xt"
)

// IPSets reads the sets of ipset.
type IPSets interface {
	// Contains reports whether a set has what the packet has. The error is of [Undecided] if
	// that is not known.
	Contains(IPSetQuery) (bool, error)
}

// An IPSetQuery is a set and a packet.
type IPSetQuery struct {
	xt.SetRef
	// ReturnNoMatch asks for the exceptions of the set.
	ReturnNoMatch       bool
	Family              model.Family
	Protocol            model.Protocol
	Source, Destination netip.AddrPort
	In, Out             string
	Mark                uint32
}

// NodeState reads further state of the node that rules may match.
type NodeState interface {
	// RecentAges returns how long ago a list of the match recent was given the address; none
	// if it does not have it.
	RecentAges(list string, a netip.Addr) ([]time.Duration, error)
	// Sockets returns which sockets receive packets of new connections to an address and
	// port.
	Sockets(p model.Protocol, to netip.AddrPort) (Sockets, error)
	// Queues returns the queues at which programs listen.
	Queues() ([]uint16, error)
}

// Sockets are those for an address and port.
type Sockets struct {
	Addr bool // of this address
	Any  bool // of any address
}

// Undecided returns an error for what is not known.
func Undecided(why string) error { return undecidedError(why) }

// matchSet is set_match_v4 of net/netfilter/xt_set.c.
func (w *walk) matchSet(e xt.InSet) (bool, error) {
	switch {
	case e.Counters:
		return false, undecidedError("a match of counters in a set of ipset")
	case w.changedIPSets:
		return false, undecidedError("a match of a set of ipset, behind a rule that changes one")
	case w.IPSets == nil:
		return false, undecidedError("a match of a set of ipset, which is not read")
	}
	q := IPSetQuery{
		SetRef: e.SetRef, ReturnNoMatch: e.ReturnNoMatch, Family: w.frame.family, Protocol: w.frame.protocol,
		Source: w.frame.source(), Destination: w.frame.destination(), In: w.frame.in.Name, Out: w.frame.out.Name, Mark: w.frame.mark,
	}
	found, err := cached(w.ipsets, q, func() (bool, error) { return w.IPSets.Contains(q) })
	return found != e.Invert, err
}

// sockets returns the sockets for the packet. A packet of a connection may have another one.
func (w *walk) sockets(to netip.AddrPort) (Sockets, error) {
	switch {
	case w.Node == nil || w.flow != nil || w.conn.reply || w.frame.fromNode:
		return Sockets{}, undecidedError("a match of the socket of the packet")
	case w.frame.protocol == model.SCTP:
		return Sockets{}, nil
	}
	return w.Node.Sockets(w.frame.protocol, to)
}

// matchSocket is socket_match of net/netfilter/xt_socket.c.
func (w *walk) matchSocket(e xt.Socket) (bool, error) {
	found, err := w.sockets(w.frame.destination())
	switch {
	case err != nil:
		return false, err
	case !found.Addr && (!found.Any || !e.NoWildcard):
		return false, nil
	case e.Transparent || found.Any:
		return false, undecidedError("a match of transparent sockets")
	}
	return true, nil
}

// socket loads a property of the packet's socket. Without a socket the rule does not match.
func (w *walk) socket(e *expr.Socket) (verdict, error) {
	found, err := w.sockets(w.frame.destination())
	if err != nil || found == (Sockets{}) {
		return verdictBreak, err
	}
	return verdictContinue, w.regs.load(e.Register, unknownValue(4))
}

// A TransparentProxy gives the packet to a socket of the node, by registers; zero means the
// packet's own address or port (tproxy).
type TransparentProxy struct{ Addr, Port uint32 }

// nativeProxy runs a [TransparentProxy]. Without a socket the rule does not match.
func (w *walk) nativeProxy(e TransparentProxy) (verdict, error) {
	to := w.frame.destination()
	a, err := w.addrIn(e.Addr, to.Addr())
	if err != nil {
		return verdictBreak, err
	}
	port, err := w.portIn(e.Port, to.Port())
	if err != nil {
		return verdictBreak, err
	}
	return w.transparentProxy(netip.AddrPortFrom(a, port), verdictBreak)
}

// transparentProxy gives the packet to a socket at an address and port, or has another verdict
// if there is none. Where the packet is routed then is not predicted.
func (w *walk) transparentProxy(to netip.AddrPort, without verdict) (verdict, error) {
	if to.Port() == 0 {
		to = netip.AddrPortFrom(to.Addr(), w.frame.destination().Port())
	}
	found, err := w.sockets(to)
	if err != nil || found != (Sockets{}) {
		return verdictBreak, undecidedError(fmt.Sprintf("a transparent proxy at %s, to which it gives the packet", to))
	}
	return without, nil
}

// queue gives the packet to a program, which may drop it.
func (w *walk) queue(e xt.Queue) (verdict, error) {
	listening, err := w.hasListener(e)
	switch {
	case err != nil:
		return verdictBreak, err
	case listening:
		if w.assume(w.doubt(undecidedError(fmt.Sprintf("queue %d, at which a program decides", e.From)))) {
			return verdict{kind: expr.VerdictDrop}, nil
		}
	case !e.Bypass:
		return verdict{kind: expr.VerdictDrop}, nil
	}
	return verdictAccept, nil
}

// hasListener reports whether a program listens at a queue. Of several queues it is not
// predicted which one gets the packet.
func (w *walk) hasListener(e xt.Queue) (bool, error) {
	if w.Node == nil {
		return true, nil
	}
	list, err := w.Node.Queues()
	for _, n := range list {
		if e.From <= n && n <= e.To {
			return true, err
		}
	}
	return false, err
}
