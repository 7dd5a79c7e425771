package conntrack

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// Usage is how many entries the kernel's table has, and can have.
type Usage struct{ Entries, Max uint32 }

// IsFull reports whether so few entries are left that new connections may be dropped: less than a
// twentieth.
func (u Usage) IsFull() bool { return u.Max > 0 && uint64(u.Entries)*20 >= uint64(u.Max)*19 }

// Usage reads how full the kernel's table is.
func (c *Conntrack) Usage() (u Usage, err error) {
	err = c.ask(request(msgUsage, 0, unix.AF_UNSPEC, nil), msgUsage, func(data []byte) { u = decodeUsage(data) })
	if err != nil {
		return Usage{}, fmt.Errorf("read the size of connection tracking: %w", explainError(err))
	}
	return u, nil
}

// IsFull is [Usage.IsFull] of the kernel's table.
func (c *Conntrack) IsFull() (bool, error) {
	u, err := c.Usage()
	return u.IsFull(), err
}

// decodeUsage returns zeros if the message does not have them.
func decodeUsage(data []byte) (u Usage) {
	var d attr.Decoder
	for kind, value := range d.Attributes(d.Body(data)) {
		switch kind {
		case ctaStatsEntries:
			u.Entries = d.Uint32(value)
		case ctaStatsMaxEntries:
			u.Max = d.Uint32(value)
		}
	}
	return u
}
