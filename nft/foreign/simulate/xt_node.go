package simulate

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// matchSet is set_match_v4 of net/netfilter/xt_set.c.
func (w *walk) matchSet(b info) (bool, error) {
	const invert, noMatch = 1, 1 << 7
	flags := b.u8(3)
	q := IPSetQuery{
		Index: b.u16(0), Dimensions: b.u8(2), FromSource: flags &^ (invert | noMatch),
		ReturnNoMatch: b.u32(40)&noMatch != 0, Family: w.frame.family, Protocol: w.frame.protocol,
		Source: w.frame.source(), Destination: w.frame.destination(), In: w.frame.in.Name, Out: w.frame.out.Name,
		Mark: w.frame.mark,
	}
	const packets, bytes = 16, 32 // how counters of the element are compared
	switch {
	case b.u8(packets) != 0 || b.u8(bytes) != 0:
		return false, undecidedError("a match of counters in a set of ipset")
	case w.changedIPSets:
		return false, undecidedError("a match of a set of ipset, behind a rule that changes one")
	case w.IPSets == nil:
		return false, undecidedError("a match of a set of ipset, which is not read")
	}
	found, err := w.ipsets.get(q, func() (bool, error) { return w.IPSets.Contains(q) })
	return found != (flags&invert != 0), err
}

// matchSocket is socket_match of net/netfilter/xt_socket.c.
func (w *walk) matchSocket(b info) (bool, error) {
	const transparent = 1
	if b.u8(0)&transparent != 0 && w.isNotIntercepted() {
		return false, nil
	}
	return false, errSocket
}

const errSocket = undecidedError("a match of the socket of the packet")

// isNotIntercepted reports whether the packet has no transparent socket. That one of a new connection
// has one is so unlikely that it must not make each answer uncertain.
func (w *walk) isNotIntercepted() bool { return w.flow == nil || w.record.later }

// socket is nft_socket_eval of net/netfilter/nft_socket.c. Without a socket no rule matches; with
// another one, what it loads is zero.
func (w *walk) socket(e *expr.Socket) (verdict, error) {
	if e.Key != expr.SocketKeyTransparent || !w.isNotIntercepted() {
		return verdictBreak, errSocket
	}
	err := w.regs.load(e.Register, unknownValue(1))
	w.regs.bounds = bounds{register: e.Register, length: 1}
	return verdictContinue, err
}

// Options of a match of recent: it adds the address to its list, or deletes it.
const recentSet, recentRemove = 2, 8

// matchRecent is recent_mt of net/netfilter/xt_recent.c. What lists had before the packet is unknown.
func (w *walk) matchRecent(b info) (bool, error) {
	const ttl, mask = 16, 212
	options, invert, name := b.u8(8), b.u8(9) != 0, b.text(10, 200)
	a := w.ends()[byteOf(b.u8(210) != 0)].Addr()
	a = masked(a, b.addr(mask))
	at := elementKey{Table{Family: "xt_recent"}, name, a.String()}
	if options&recentSet != 0 {
		w.addedElements[at] = &Element{}
		return !invert, nil
	}
	switch added, changed := w.addedElements[at]; {
	case !changed, added != nil && (options&ttl != 0 || b.u32(4) > 1):
		return false, undecidedError(matchPrefix + "recent, list " + name)
	case added == nil:
		return invert, nil
	case options&recentRemove != 0:
		w.addedElements[at] = nil
	}
	return !invert, nil
}

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

// Undecided returns an error for what is not known.
func Undecided(why string) error { return undecidedError(why) }

func byteOf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// queue gives the packet to a program, which may drop it.
func (w *walk) queue(number uint16) (verdict, error) {
	if w.assume(w.doubt(undecidedError(fmt.Sprintf("queue %d, at which a program decides", number)))) {
		return verdict{kind: expr.VerdictDrop}, nil
	}
	return verdictAccept, nil
}
