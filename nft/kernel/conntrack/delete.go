package conntrack

import (
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// deleteSome deletes the entries in one call and returns how many of them still existed. The
// kernel answers with an error for each one that did not, and for the last one in any case.
func (c *Conntrack) deleteSome(entries []Entry) (deleted int, err error) {
	conn, err := c.dial()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	messages := make([]netlink.Message, len(entries))
	for i, e := range entries {
		messages[i] = encodeDelete(e)
	}
	messages[len(messages)-1].Header.Flags |= netlink.Acknowledge
	sent, err := conn.SendMessages(messages)
	if err != nil {
		return 0, err
	}
	last, gone := sent[len(sent)-1].Header.Sequence, 0
	for {
		_, err := conn.Receive()
		var answer *netlink.OpError
		switch {
		case err == nil:
			return len(entries) - gone, nil
		case !errors.Is(err, unix.ENOENT) || !errors.As(err, &answer):
			return 0, err
		}
		gone++
		if answer.Sequence == last {
			return len(entries) - gone, nil
		}
	}
}
