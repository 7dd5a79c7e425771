package conntrack

import (
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// dump reads the table once, as far as the kernel's filter lets entries through. The error
// is EINTR if the table changed so that the result is not complete.
func (c *Conntrack) dump(q Query, port uint16, want func(Entry) bool) (entries []Entry, err error) {
	seen := 0
	err = c.each(encodeList(q, port, !c.unfiltered), func(data []byte) {
		e, raw, known := decode(data)
		if !known || e.Family() != q.Family || e.Protocol != q.Protocol {
			c.unfiltered = true // a kernel that knows no filter sends everything
			return
		}
		if port != anyPort && e.Original.Port() != port {
			c.unfiltered = true
		}
		seen++
		if want(e) {
			e.key = raw.key()
			entries = append(entries, e)
		}
	})
	if err != nil {
		return nil, err
	}
	if port == anyPort || c.unfiltered {
		c.entryCount[countKey{q.Family, q.Protocol}] = seen
	}
	return entries, nil
}

// each sends a request for a dump and calls fn for each entry, given what follows its
// netlink header.
func (c *Conntrack) each(request netlink.Message, fn func(data []byte)) (err error) {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
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
		fn(m.Data)
	}
	return nil
}
