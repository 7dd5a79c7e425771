package conntrack

import (
	"errors"
	"fmt"

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
	all := request(msgGet, netlink.Dump, unix.AF_UNSPEC, nil)
	for range maxListTries {
		begin()
		err = c.each(all, func(data []byte) {
			if e, _, known := decode(data); known && !isClosed(e.Protocol, data) {
				fn(e)
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
