package conntrack

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// IsFull reports whether the kernel's table has so few entries left that new connections may be
// dropped: less than a twentieth.
func (c *Conntrack) IsFull() (full bool, err error) {
	conn, err := c.dial()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	requests := []netlink.Message{request(msgUsage, 0, unix.AF_UNSPEC, nil), shortDump(unix.AF_UNSPEC)}
	if _, err := conn.SendMessages(requests); err != nil {
		return false, usageError(err)
	}
	entries, most := uint32(0), uint32(0)
	for m, err := range conn.ReceiveIter() {
		if err != nil {
			return false, usageError(err)
		}
		if m.Header.Type&0xff == msgUsage {
			entries, most = decodeUsage(m.Data)
		}
	}
	return most > 0 && uint64(entries)*20 >= uint64(most)*19, nil
}

func usageError(err error) error {
	return fmt.Errorf("read the size of connection tracking: %w", explainError(err))
}

// decodeUsage returns how many entries the table has, and can have; zeros if the message does
// not have them.
func decodeUsage(data []byte) (entries, most uint32) {
	var d attr.Decoder
	for kind, value := range d.Attributes(d.Body(data)) {
		switch kind {
		case ctaStatsEntries:
			entries = d.Uint32(value)
		case ctaStatsMaxEntries:
			most = d.Uint32(value)
		}
	}
	return entries, most
}
