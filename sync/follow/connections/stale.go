package connections

import (
	"errors"
	"io/fs"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// A staleSet is what was stale in the last clean-up of a family and has been since.
type staleSet struct {
	endpoints    map[*portCounts]sets.Set[netip.AddrPort] // that no longer serve the Service port
	destinations sets.Set[model.Match]                    // without a Service
	unlisted     sets.Set[pair]                           // pairs that the last listing did not have
}

func newStaleSet() staleSet {
	return staleSet{map[*portCounts]sets.Set[netip.AddrPort]{}, sets.New[model.Match](), sets.New[pair]()}
}

// addFrontend removes a new frontend from the stale destinations. A node port may be any of them.
func (s *staleSet) addFrontend(m model.Match) {
	if m.Addr.IsValid() {
		s.destinations.Delete(m)
	} else {
		clear(s.destinations)
	}
}

func (s *staleSet) removeServing(counts *portCounts) {
	for e := range s.endpoints[counts] {
		if counts.serves(e) {
			s.endpoints[counts].Delete(e)
		}
	}
}

func (s *staleSet) addEndpoint(counts *portCounts, e netip.AddrPort) {
	if s.endpoints[counts] == nil {
		s.endpoints[counts] = sets.New[netip.AddrPort]()
	}
	s.endpoints[counts].Insert(e)
}

// cleanUp removes elements that have been stale since the last clean-up, and records the
// currently stale ones.
func (c *Connections) cleanUp() {
	c.applyCommits()
	c.forFamilies(c.cleanUpFamily)
}

// batchSize is about how many elements one transaction deletes.
const batchSize = 1024

func (c *Connections) cleanUpFamily(f model.Family) error {
	list, err := c.read(f)
	if err != nil {
		return err
	}
	c.dropUnlisted(f, list)
	next := newStaleSet()
	next.unlisted = c.stale[f].unlisted
	var batch change
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Destination == list[0].Destination {
			n++
		}
		c.classify(f, list[:n], &next, &batch)
		list = list[n:]
		if len(batch.remove) >= batchSize || len(list) == 0 {
			err = errors.Join(err, c.apply(f, &batch))
			batch = change{}
		}
	}
	c.tracker.forgetEndpoints(f, next.endpoints)
	c.stale[f] = next
	return err
}

// A change is what one transaction removes from and adds to the set, and the destinations
// that it takes out of the count.
type change struct {
	remove, add []nft.ConnectionCount
	uncounted   []model.Match
}

// classify finds the stale elements of one destination. It adds those that were stale
// before to the batch, and all of them, since removing may fail, to the next staleSet.
func (c *Connections) classify(f model.Family, list []nft.ConnectionCount, next *staleSet, batch *change) {
	destination := list[0].Destination
	counts := c.tracker.portOf(destination)
	if counts == nil {
		next.destinations.Insert(destination)
		if c.stale[f].destinations.Has(destination) {
			batch.remove = append(batch.remove, list...)
		}
		return
	}
	var stale []nft.ConnectionCount
	for _, counted := range list {
		if !counted.Endpoint.IsValid() || counts.serves(counted.Endpoint) {
			continue
		}
		next.addEndpoint(counts, counted.Endpoint)
		if c.stale[f].endpoints[counts].Has(counted.Endpoint) {
			stale = append(stale, counted)
		}
	}
	if len(stale) > 0 {
		c.fold(f, list[0], stale, batch)
	}
}

// fold adds stale elements of one destination to its element for former endpoints, which
// has no endpoint and sorts first in the listing. If the listing missed it, nothing is done this time:
// the kernel ignores the addition of an element that exists.
func (c *Connections) fold(f model.Family, first nft.ConnectionCount, stale []nft.ConnectionCount, batch *change) {
	former := nft.ConnectionCount{Destination: first.Destination}
	if !first.Endpoint.IsValid() {
		stale = append(stale, first)
	} else if _, missed := c.tracker.last[f][pair{destination: first.Destination}]; missed {
		return
	}
	for _, counted := range stale {
		former.Connections += counted.Connections
	}
	batch.remove = append(batch.remove, stale...)
	if former.Connections > 0 { // zero for elements without a counter, of another program
		batch.add = append(batch.add, former)
	}
}

// apply commits a change. If another program has flushed the set meanwhile, nothing is left to do.
func (c *Connections) apply(f model.Family, todo *change) error {
	if len(todo.remove) == 0 {
		return nil
	}
	batch := nft.Batch{nft.DeleteConnections{Family: f, List: todo.remove}}
	if len(todo.uncounted) > 0 {
		batch = append(batch, nft.AddUncounted(f, todo.uncounted))
	}
	if len(todo.add) > 0 {
		batch = append(batch, nft.AddConnections{Family: f, List: todo.add})
	}
	_, err := c.Kernel.Apply(batch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, counted := range todo.remove {
		delete(c.tracker.last[f], pair{counted.Destination, counted.Endpoint})
	}
	for _, counted := range todo.add {
		c.tracker.last[f][pair{counted.Destination, counted.Endpoint}] = counted.Connections
	}
	c.Log.Debug("connection counters removed", "family", f.String(), "removed", len(todo.remove), "added", len(todo.add))
	return nil
}

// removeLeft removes the elements of frontends that Service ports have lost, and returns the
// remaining listing. Elements that cannot be removed are the baseline of later reads.
func (c *Connections) removeLeft(f model.Family, list []nft.ConnectionCount) (rest []nft.ConnectionCount, err error) {
	left := c.tracker.left[f]
	if len(left) == 0 {
		return list, nil
	}
	var remove []nft.ConnectionCount
	for _, counted := range list {
		at, _, _ := model.Find(c.tracker.frontends, c.tracker.nodeAddrs, counted.Destination)
		if _, others := left[at]; !others {
			rest = append(rest, counted)
			continue
		}
		remove = append(remove, counted)
		c.tracker.last[f][pair{counted.Destination, counted.Endpoint}] = counted.Connections
	}
	c.tracker.left[f] = map[model.Match]Port{}
	for chunk := range slices.Chunk(remove, batchSize) {
		err = errors.Join(err, c.apply(f, &change{remove: chunk}))
	}
	return rest, err
}

// dropUnlisted forgets pairs that neither this listing nor the last one has, because
// another program flushed the set.
func (c *Connections) dropUnlisted(f model.Family, list []nft.ConnectionCount) {
	if len(c.tracker.last[f]) == 0 {
		return
	}
	listed := make(sets.Set[pair], len(list))
	for i := range list {
		listed.Insert(pair{list[i].Destination, list[i].Endpoint})
	}
	unlisted := sets.New[pair]()
	for p := range c.tracker.last[f] {
		switch {
		case listed.Has(p):
		case c.stale[f].unlisted.Has(p):
			delete(c.tracker.last[f], p)
		default:
			unlisted.Insert(p)
		}
	}
	c.stale[f].unlisted = unlisted
}
