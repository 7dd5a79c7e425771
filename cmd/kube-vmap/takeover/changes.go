package takeover

import (
	"maps"
	"net/netip"
	stdsync "sync"

	"kube-vmap/nft"
)

// changes counts changes of the addresses of a sample by the loop. An author who adds and
// removes endpoints all the time must not make a check compare what was read with what has
// changed since.
type changes struct {
	mu     stdsync.Mutex
	counts map[netip.Addr]int
}

// watch begins to count changes of these targets only.
func (c *changes) watch(sample []target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = map[netip.Addr]int{}
	for _, s := range sample {
		c.counts[s.at.Addr()] = 0
	}
}

// read returns the counts.
func (c *changes) read() map[netip.Addr]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// add counts the changes of a batch. Call it before the batch is applied.
func (c *changes) add(b nft.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.counts) == 0 {
		return
	}
	for _, op := range b {
		_, list, _ := nft.AddedElements(op)
		if gone, deletes := op.(nft.DeleteElements); deletes {
			list = gone.Elements
		}
		for i := range list {
			if n, watched := c.counts[list[i].Key.Addr]; watched {
				c.counts[list[i].Key.Addr] = n + 1
			}
		}
	}
}
