package conntrack

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Each calls fn for every entry with addresses and ports of both families, in one
// walk of the kernel's table. An entry that ends or begins
// meanwhile may be missing. Begin is called first, and again if the kernel's table
// was rebuilt meanwhile and all begins anew.
func (c *Conntrack) Each(begin func(), fn func(Entry)) (err error) {
	for range listTries {
		begin()
		if err = c.walk(fn); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("list flows: %w", explain(err))
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
		if e, _, known := decode(m.Data); known {
			fn(e)
		}
	}
	return nil
}
