package conntrack

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// dump reads the table once, as far as the kernel lets it through its filter.
// An error that is EINTR tells that the kernel could not give a whole picture.
func (c *Conntrack) dump(q Query, port uint16, want func(Entry) bool) (entries []Entry, err error) {
	request, err := encodeList(q, port, !c.unfiltered)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	conn, err := c.dial()
	if err != nil {
		return nil, missingSocket(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Send(request); err != nil {
		return nil, err
	}
	seen := 0
	for m, err := range conn.ReceiveIter() {
		switch {
		case err != nil:
			return nil, err
		case m.Header.Flags&netlink.DumpInterrupted != 0:
			return nil, unix.EINTR
		}
		e, raw, known := decode(m.Data)
		if !known || e.Family() != q.Family || e.Protocol != q.Protocol {
			c.unfiltered = true // what nobody asked for, by a kernel that knows no filter
			continue
		}
		if port != anyPort && e.Original.Port() != port {
			c.unfiltered = true
		}
		seen++
		if want(e) {
			e.key = raw.key()
			entries = append(entries, e)
		}
	}
	if port == anyPort || c.unfiltered {
		c.entryCount[countKey{q.Family, q.Protocol}] = seen
	}
	return entries, nil
}
