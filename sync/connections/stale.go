package connections

import (
	"errors"
	"io/fs"
	"net/netip"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// staleSet is what was found stale in one family when it was last looked for, and has
// been since.
type staleSet struct {
	endpoints map[*portCounts]map[netip.AddrPort]struct{} // endpoints that serve no longer
	frontends map[model.Match]struct{}                    // addresses and ports that are no Service's
	unlisted  map[pair]struct{}                           // pairs that were listed once
}

func newStaleSet() staleSet {
	return staleSet{map[*portCounts]map[netip.AddrPort]struct{}{}, map[model.Match]struct{}{}, map[pair]struct{}{}}
}

// frontendServed notes that an address and port is a Service's now; a node port is so at
// any address.
func (w *staleSet) frontendServed(m model.Match) {
	if m.Addr.IsValid() {
		delete(w.frontends, m)
	} else {
		clear(w.frontends)
	}
}

// dropServing notes which endpoints a Service port has now.
func (w *staleSet) dropServing(one *portCounts) {
	for e := range w.endpoints[one] {
		if one.serves(e) {
			delete(w.endpoints[one], e)
		}
	}
}

// addEndpoint notes that an endpoint serves no longer.
func (w *staleSet) addEndpoint(one *portCounts, e netip.AddrPort) {
	if w.endpoints[one] == nil {
		w.endpoints[one] = map[netip.AddrPort]struct{}{}
	}
	w.endpoints[one][e] = struct{}{}
}

// staleSet looks for what is stale and removes what was so already.
func (c *Connections) cleanUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applyUpdates()
	var failed error
	for _, f := range model.Families {
		if err := c.cleanUpFamily(f); err != nil {
			failed = err
		}
	}
	c.readAt = time.Now()
	c.logOutcome(failed)
}

// batchSize is about how many elements one transaction deletes.
const batchSize = 1024

func (c *Connections) cleanUpFamily(f model.Family) error {
	list, err := c.read(f)
	if err != nil {
		return err
	}
	c.dropUnlisted(f, list)
	c.tracker.age(f)
	next := newStaleSet()
	next.unlisted = c.stale[f].unlisted
	var batch change
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Asked == list[0].Asked {
			n++
		}
		c.classify(f, list[:n], &next, &batch)
		list = list[n:]
		if len(batch.remove) >= batchSize || len(list) == 0 {
			err = errors.Join(err, c.apply(f, &batch))
			batch = change{}
		}
	}
	c.stale[f] = next
	return err
}

// change is what is done to the set in one transaction.
type change struct{ remove, add []nft.ConnectionCount }

// classify says what becomes of all that was counted for one address and port. All that
// is stale is noted: what was for the first time, and what may turn out to be there
// still.
func (c *Connections) classify(f model.Family, list []nft.ConnectionCount, next *staleSet, batch *change) {
	asked := list[0].Asked
	one := c.tracker.portOf(asked)
	if one == nil {
		next.frontends[asked] = struct{}{}
		if _, before := c.stale[f].frontends[asked]; before {
			batch.remove = append(batch.remove, list...)
		}
		return
	}
	var stale []nft.ConnectionCount
	for _, counted := range list {
		if !counted.Endpoint.IsValid() || one.serves(counted.Endpoint) {
			continue
		}
		next.addEndpoint(one, counted.Endpoint)
		if _, before := c.stale[f].endpoints[one][counted.Endpoint]; before {
			stale = append(stale, counted)
		}
	}
	if len(stale) > 0 {
		c.fold(f, list[0], stale, batch)
	}
}

// fold puts what is stale of one address and port together with what was before, which
// sorts before all others: first. The kernel leaves an element as it is that is added
// once more; so if the listing has missed it, nothing is done this time.
func (c *Connections) fold(f model.Family, first nft.ConnectionCount, stale []nft.ConnectionCount, batch *change) {
	former := nft.ConnectionCount{Asked: first.Asked}
	if !first.Endpoint.IsValid() {
		stale = append(stale, first)
	} else if _, missed := c.tracker.last[f][pair{asked: first.Asked}]; missed {
		return
	}
	for _, counted := range stale {
		former.Connections += counted.Connections
	}
	batch.remove = append(batch.remove, stale...)
	if former.Connections > 0 { // others may have put an element there without a counter
		batch.add = append(batch.add, former)
	}
}

// apply does what was judged to be done. If somebody has meanwhile emptied the set,
// there is nothing to do.
func (c *Connections) apply(f model.Family, todo *change) error {
	if len(todo.remove) == 0 {
		return nil
	}
	batch := nft.Batch{nft.DeleteConnections{Family: f, List: todo.remove}}
	if len(todo.add) > 0 {
		batch = append(batch, nft.AddConnections{Family: f, List: todo.add})
	}
	_, err := c.kernel.Apply(batch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, counted := range todo.remove {
		c.tracker.drop(f, pair{counted.Asked, counted.Endpoint})
	}
	for _, counted := range todo.add {
		c.tracker.last[f][pair{counted.Asked, counted.Endpoint}] = counted.Connections
	}
	c.log.Debug("counters of what is gone were put together", "family", f.String(),
		"removed", len(todo.remove), "added", len(todo.add))
	return nil
}

// drop forgets a pair that is not in the kernel any more.
func (s *tracker) drop(f model.Family, p pair) {
	delete(s.last[f], p)
	if one := s.portOf(p.asked); one != nil && !one.serves(p.endpoint) {
		delete(one.endpoints, p.endpoint)
	}
}

// dropUnlisted drops pairs that were neither listed now nor the time before: somebody
// emptied the set.
func (c *Connections) dropUnlisted(f model.Family, list []nft.ConnectionCount) {
	if len(c.tracker.last[f]) == 0 {
		return
	}
	listed := make(map[pair]struct{}, len(list))
	for i := range list {
		listed[pair{list[i].Asked, list[i].Endpoint}] = struct{}{}
	}
	missing := map[pair]struct{}{}
	for p := range c.tracker.last[f] {
		if _, there := listed[p]; there {
			continue
		}
		if _, before := c.stale[f].unlisted[p]; before {
			c.tracker.drop(f, p)
		} else {
			missing[p] = struct{}{}
		}
	}
	c.stale[f].unlisted = missing
}
