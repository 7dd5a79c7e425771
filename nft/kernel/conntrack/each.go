package conntrack

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
)

// Each calls fn for every entry with addresses and ports, of both families, in one walk of
// the kernel's table. Closed connections, which the kernel keeps for some minutes to
// recognize late packets, are skipped; UDP has none. An entry that begins or ends meanwhile
// may be missing. Begin is called first, and again if the kernel's table was rebuilt
// meanwhile and the walk starts over.
func (c *Conntrack) Each(begin func(), fn func(Entry)) (err error) {
	return c.eachWith(0, begin, func(e Entry, _ rawEntry, data []byte) {
		if !isClosed(e.Protocol, data) {
			fn(e)
		}
	})
}

// EachTranslated is [Conntrack.Each] for entries whose destination was translated,
// closed ones included. A kernel that filters by status, as 6.18 does, sends only those;
// others send everything, and the rest is skipped here.
func (c *Conntrack) EachTranslated(begin func(), fn func(Translated)) error {
	return c.eachWith(statusDstNAT, begin, func(e Entry, raw rawEntry, data []byte) {
		if e.Reply != e.Original {
			fn(translated(e, raw, data))
		}
	})
}

// Answering returns the destinations of a protocol's entries, translated or not, that have sent
// an answer other than a refusal. Closed connections count for as long as the kernel keeps them.
func (c *Conntrack) Answering(p model.Protocol) (at map[netip.AddrPort]bool, err error) {
	err = c.eachWith(statusSeenReply, func() { at = map[netip.AddrPort]bool{} }, func(e Entry, raw rawEntry, data []byte) {
		if t := translated(e, raw, data); t.Protocol == p && t.Replied && !t.Aborted {
			at[t.Reply] = true
		}
	})
	return at, err
}

// eachWith calls fn for entries with a bit in their status, or all without one. A kernel that does
// not filter sends others, too.
func (c *Conntrack) eachWith(status uint32, begin func(), fn func(e Entry, raw rawEntry, data []byte)) (err error) {
	all := request(msgGet, netlink.Dump, unix.AF_UNSPEC, func(e *attr.Encoder) {
		if status != 0 {
			e.Uint32(ctaStatus, status)
		}
	})
	for range maxListTries {
		begin()
		err = c.each(all, func(data []byte) {
			if e, raw, known := decode(data); known {
				fn(e, raw, data)
			}
		})
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("list flows: %w", explainError(err))
	}
	return nil
}

// The last states of connections, by number; see [tcpStates] and [sctpStates].
const (
	tcpTimeWait, tcpClose           = 7, 8
	sctpClosed, sctpShutdownAckSent = 1, 7
)

// isClosed reports whether both sides have ended the connection of an entry.
func isClosed(p model.Protocol, entry []byte) bool {
	var d attr.Decoder
	state := decodeState(d.Find(d.Body(entry), ctaProtoInfo))
	switch p {
	case model.TCP:
		return state == tcpTimeWait || state == tcpClose
	case model.SCTP:
		return state == sctpClosed || state == sctpShutdownAckSent
	}
	return false
}
