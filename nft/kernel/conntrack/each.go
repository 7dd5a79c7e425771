package conntrack

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Each calls fn for every entry with addresses and ports of both families, in one
// walk of the kernel's table. Connections that are over, which the kernel remembers
// for some minutes to know late packets of theirs, are left out; of UDP that cannot be
// told. An entry that ends or begins meanwhile may be missing. Begin is called first, and again if the kernel's table
// was rebuilt meanwhile and all begins anew.
func (c *Conntrack) Each(begin func(), fn func(Entry)) (err error) {
	for range maxListTries {
		begin()
		if err = c.walk(fn); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("list flows: %w", explainError(err))
	}
	return nil
}

// walk asks for everything once.
func (c *Conntrack) walk(fn func(Entry)) (err error) {
	conn, err := c.dial()
	if err != nil {
		return missingSocket(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	request := netlink.Message{
		Header: netlink.Header{
			Type:  unix.NFNL_SUBSYS_CTNETLINK<<8 | msgGet,
			Flags: netlink.Request | netlink.Dump,
		},
		Data: []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	}
	if _, err := conn.Send(request); err != nil {
		return err
	}
	for m, err := range conn.ReceiveIter() {
		switch {
		case err != nil:
			return err
		case m.Header.Flags&netlink.DumpInterrupted != 0:
			return unix.EINTR
		}
		if e, _, known := decode(m.Data); known && !isClosed(e.Protocol, m.Data) {
			fn(e)
		}
	}
	return nil
}

// The last states of connections, as they are numbered there; see [tcpStates] and
// [sctpStates].
const (
	tcpTimeWait, tcpClose           = 7, 8
	sctpClosed, sctpShutdownAckSent = 1, 7
)

// isClosed reports whether both sides have ended the connection of an entry.
func isClosed(p model.Protocol, entry []byte) bool {
	var state byte
	for kind, value := range attributes(entry[nfHeaderLen:]) {
		if kind == ctaProtoInfo {
			state = decodeState(value)
		}
	}
	switch p {
	case model.TCP:
		return state == tcpTimeWait || state == tcpClose
	case model.SCTP:
		return state == sctpClosed || state == sctpShutdownAckSent
	}
	return false
}
