package leastconn

import (
	"cmp"
	"maps"
	"slices"

	"kube-vmap/model"
)

// maxSlotsAtOnce limits a transaction of all pools together.
const maxSlotsAtOnce = 2048

// A quota divides the slots of a transaction among the namespaces that have changes:
//
//   - Half of them in equal shares; the unused part of a share goes to the others. A namespace
//     that needs no more than its share is served at every observation, whatever others have.
//   - The other half, and unused slots, one pool of each namespace at a time. However many
//     namespaces there are, and however small their shares, each of them has its turn.
//
// Within a namespace, pools that waited are first, so none can keep others waiting. Then
// follow the pools with the most misplaced connections.
type quota struct {
	last string // the namespace that had the last turn
}

// send records as sent, and returns, the changes that fit into one transaction. The others
// wait for later observations.
func (q *quota) send(changes []change) (out []model.Overlay) {
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(b.waits, a.waits), cmp.Compare(b.misplaced, a.misplaced), a.key.Compare(b.key))
	})
	for _, c := range changes {
		c.waits++
	}
	for _, c := range q.take(changes) {
		c.waits = 0
		c.pool.cluster.Shares, c.pool.local.Shares = c.cluster, c.local
		out = append(out, model.PoolShares{Key: c.key, Cluster: c.pool.cluster.ListShares, Local: c.pool.local.ListShares})
	}
	return out
}

func (q *quota) take(changes []change) (taken []change) {
	queues, wanted := map[string][]change{}, map[string]int{}
	for _, c := range changes {
		queues[c.namespace] = append(queues[c.namespace], c)
		wanted[c.namespace] += c.cost()
	}
	share := model.FairShare(maxSlotsAtOnce/2, slices.Collect(maps.Values(wanted)))
	left := maxSlotsAtOnce
	for _, namespace := range slices.Sorted(maps.Keys(queues)) {
		queue, used := queues[namespace], 0
		for len(queue) > 0 && used+queue[0].cost() <= share {
			used += queue[0].cost()
			taken, queue = append(taken, queue[0]), queue[1:]
		}
		left -= used
		if queues[namespace] = queue; len(queue) == 0 {
			delete(queues, namespace)
		}
	}
	return q.takeTurns(taken, queues, left)
}

// takeTurns appends one change of each namespace after the other as long as they fit, and
// begins after the namespace that had the last turn.
func (q *quota) takeTurns(taken []change, queues map[string][]change, left int) []change {
	names := slices.Sorted(maps.Keys(queues))
	next, found := slices.BinarySearch(names, q.last)
	if found {
		next++
	}
	for len(names) > 0 {
		next %= len(names)
		name := names[next]
		queue := queues[name]
		if left -= queue[0].cost(); left < 0 {
			break
		}
		taken, q.last = append(taken, queue[0]), name
		if queues[name] = queue[1:]; len(queue) > 1 {
			next++
		} else {
			names = slices.Delete(names, next, next+1)
		}
	}
	return taken
}

func (c *change) cost() int { return c.pool.cluster.cost(c.cluster) + c.pool.local.cost(c.local) }
