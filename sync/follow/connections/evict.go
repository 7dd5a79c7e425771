package connections

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

const (
	// shareFrom is how many counters make a read evict some, capacity how many all
	// namespaces may keep then.
	shareFrom = nft.MaxConnectionCounts * 3 / 4
	capacity  = nft.MaxConnectionCounts / 2
)

// ReasonNotCounted is the reason of the event that connections of a Service are not counted.
const ReasonNotCounted = "ConnectionsNotCounted"

type dropped struct {
	total     uint64 // connections without a counter
	frontends int    // that are not counted now
}

// poll reads the counter of connections that were not counted. If it rises, others than those who
// filled the set suffer: it reads the set, which evicts elements.
func (c *Connections) poll() {
	for _, f := range model.Families {
		totals, err := c.Kernel.Counters(f)
		if err != nil {
			c.Log.Debug("counter not readable", "family", f.String(), "err", err)
			continue
		}
		total := totals[nft.CounterConnectionsFull]
		c.rose = c.rose || total > c.dropped[f].total
		c.dropped[f].total = total
	}
	if c.rose && c.pace.Remaining() == 0 {
		c.applyCommits()
		c.readAll()
	}
}

// evict takes the largest frontends of the namespaces that have more than their fair share
// of the set out of the count, and returns the rest of the listing. Destinations without a
// Service count as one namespace.
func (c *Connections) evict(f model.Family, list []nft.ConnectionCount) (rest []nft.ConnectionCount, err error) {
	namespaces := map[string]*namespaceCounts{}
	for start, i := 0, 1; i <= len(list); i++ {
		if i < len(list) && list[i].Destination == list[start].Destination {
			continue
		}
		n := c.namespaceOf(list[start].Destination)
		if namespaces[n] == nil {
			namespaces[n] = &namespaceCounts{name: n}
		}
		namespaces[n].counters += i - start
		namespaces[n].frontends = append(namespaces[n].frontends, list[start:i])
		start = i
	}
	var weights []int
	for _, n := range namespaces {
		weights = append(weights, n.counters)
	}
	share := model.FairShare(capacity, weights)
	removed := sets.New[model.Match]()
	for _, n := range namespaces {
		if n.counters > share {
			err = cmp.Or(err, c.cut(f, n, share, removed))
		}
	}
	return slices.DeleteFunc(list, func(counted nft.ConnectionCount) bool { return removed.Has(counted.Destination) }), err
}

// namespaceOf returns the namespace of the Service that has a destination, if any.
func (c *Connections) namespaceOf(m model.Match) string {
	if counts := c.tracker.portOf(m); counts != nil {
		return counts.port.Namespace
	}
	return ""
}

type namespaceCounts struct {
	name      string
	counters  int
	frontends [][]nft.ConnectionCount
}

// cut takes frontends of a namespace out of the count until the others are within its share.
// Their totals remain, as of the listing.
func (c *Connections) cut(f model.Family, n *namespaceCounts, share int, removed sets.Set[model.Match]) (err error) {
	slices.SortStableFunc(n.frontends, func(a, b []nft.ConnectionCount) int { return cmp.Compare(len(b), len(a)) })
	var todo change
	var done []model.Match
	left := n.counters
	for i := 0; left > share && err == nil; i++ {
		frontend := n.frontends[i]
		left -= len(frontend)
		todo.remove = append(todo.remove, frontend...)
		todo.uncounted = append(todo.uncounted, frontend[0].Destination)
		if len(todo.remove) < batchSize && left > share {
			continue
		}
		if err = c.apply(f, &todo); err == nil {
			done = append(done, todo.uncounted...)
		}
		todo = change{}
	}
	if len(done) > 0 {
		removed.Insert(done...)
		c.reportUncounted(f, n, share, done)
	}
	if err != nil {
		return fmt.Errorf("evict connection counters: %w", err)
	}
	return nil
}

// reportUncounted reports frontends of a namespace that are not counted now.
func (c *Connections) reportUncounted(f model.Family, n *namespaceCounts, share int, frontends []model.Match) {
	services := sets.New[sync.Object]()
	for _, m := range frontends {
		if counts := c.tracker.portOf(m); counts != nil {
			services.Insert(sync.Object{
				Kind: "Service", Namespace: n.name, Name: counts.port.Name, UID: counts.pool.UID,
			})
		}
	}
	c.Log.Warn("connections of frontends not counted: too many pairs of destination and endpoint",
		"family", f.String(), "namespace", n.name, "frontends", len(frontends), "counters", n.counters, "share", share,
		"duration", nft.UncountedTime.String())
	for s := range services {
		c.notices.Notify(s, ReasonNotCounted, fmt.Sprintf(
			"%s connections to some of its addresses and ports are not counted for %s: its namespace has more than its share "+
				"of the counters",
			f, nft.UncountedTime))
	}
}
