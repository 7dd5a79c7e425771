package simulate

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// IPSets reads the sets of ipset.
type IPSets interface {
	// Contains reports whether a set has what the packet has. The error is of [Undecided] if
	// that is not known.
	Contains(IPSetQuery) (bool, error)
}

// An IPSetQuery is a set and a packet.
type IPSetQuery struct {
	Index      uint16 // of the set
	Dimensions uint8
	// FromSource has bit n if the n-th part of the key, counted from one, is of the source and
	// not of the destination.
	FromSource uint8
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
	// Socket returns the socket that receives a packet.
	Socket(p model.Protocol, from, to netip.AddrPort) (Socket, error)
	// Queues returns the queues at which programs listen.
	Queues() ([]uint16, error)
}

// A Socket is the socket that receives a packet, if one was found.
type Socket struct {
	Found       bool
	Wildcard    bool // it is bound to no address
	Transparent bool
}

// Undecided returns an error for what is not known.
func Undecided(why string) error { return undecidedError(why) }

// findSocket returns the socket that receives the packet at an address. A packet of a
// connection may have another one, and a sender has its own.
func (w *walk) findSocket(to netip.AddrPort) (Socket, error) {
	switch {
	case w.Node == nil || w.flow != nil || w.conn.reply || w.frame.fromNode:
		return Socket{}, undecidedError("a match of the socket of the packet")
	case w.frame.protocol == model.SCTP: // nf_sk_lookup_slow_v4 knows TCP and UDP
		return Socket{}, nil
	}
	return w.Node.Socket(w.frame.protocol, w.frame.source(), to)
}

// socket loads a property of the packet's socket. Without a socket the rule does not match.
func (w *walk) socket(e *expr.Socket) (verdict, error) {
	s, err := w.findSocket(w.frame.destination())
	if err != nil || !s.Found {
		return verdictBreak, err
	}
	v := unknownValue(4)
	switch e.Key {
	case expr.SocketKeyTransparent:
		v = known([]byte{byteOf(s.Transparent)})
	case expr.SocketKeyWildcard:
		v = known([]byte{byteOf(s.Wildcard)})
	case expr.SocketKeyMark, expr.SocketKeyCgroupv2:
	}
	return verdictContinue, w.regs.load(e.Register, v)
}

func byteOf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// A TransparentProxy gives the packet to a socket of the node, by registers; zero means the
// packet's own address or port (tproxy).
type TransparentProxy struct{ Addr, Port uint32 }

// nativeProxy runs a [TransparentProxy]. Without a socket the rule does not match.
func (w *walk) nativeProxy(e *TransparentProxy) (verdict, error) {
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
	if s, err := w.findSocket(to); err != nil || s.Found {
		return verdictBreak, undecidedError(fmt.Sprintf("a transparent proxy at %s, to which it gives the packet", to))
	}
	return without, nil
}

// queue gives the packet to a program that listens at one of the queues, and may drop it. If none
// does, the packet is dropped, or accepted with a bypass.
func (w *walk) queue(from, to uint16, bypass bool) (verdict, error) {
	listening := true
	if w.Node != nil {
		list, err := w.Node.Queues()
		if err != nil {
			return verdictBreak, err
		}
		// Which of several queues gets the packet is not predicted.
		listening = slices.ContainsFunc(list, func(n uint16) bool { return from <= n && n <= to })
	}
	switch {
	case listening:
		if w.assume(w.doubt(undecidedError(fmt.Sprintf("queue %d, at which a program decides", from)))) {
			return verdict{kind: expr.VerdictDrop}, nil
		}
	case !bypass:
		return verdict{kind: expr.VerdictDrop}, nil
	}
	return verdictAccept, nil
}
