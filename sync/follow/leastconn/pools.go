package leastconn

import (
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
)

// pools are the pools with this scheduler.
type pools map[model.Match]*pool

// A pool has the lists of a [model.Pool], for the cluster and for the node.
type pool struct {
	namespace      string
	cluster, local list
	waits          int // how many observations have found other shares since some were sent
}

// A list is one of the lists of a pool, with how its slots are shared.
type list struct {
	model.ListShares // the shares that were sent or committed; nil if they follow the weights
	rate             rate
}

func (p pools) apply(c sync.Committed) {
	follow.Update(p, c, func(f *model.Frontend, before *pool, known bool) (*pool, bool) {
		if !f.IsClusterIP() || f.Pool.Scheduler != model.SchedulerLeastConnections {
			return nil, false
		}
		if !known {
			before = new(pool)
		}
		before.namespace = f.Service.Namespace
		before.cluster.set(f.Pool, false)
		before.local.set(f.Pool, true)
		return before, true
	}, func(model.Match, *pool) {})
}

// set replaces a list by what was committed. The shares that were sent may no longer be in
// effect, and others may still be: of endpoints that were away, or of a Service port that
// the kernel refused for a while.
func (l *list) set(m *model.Pool, local bool) {
	l.ListShares = m.List(local)
	if slices.Equal(l.Shares, m.SharesOfWeights(local)) {
		l.Shares = nil
	}
}

// A change is what a pool's shares should become.
type change struct {
	*pool
	key            model.Match
	cluster, local []uint16
	misplaced      float64 // connections that are above the level of their list
}

// steer returns the changes of shares that follow from an observation, a time after the
// one before, with the period until the next one.
func (p pools) steer(counts map[endpoint]count, since, period time.Duration) (all []change) {
	for key, each := range p {
		c := change{pool: each, key: key}
		// Until its next turn it takes about as many periods as it has waited for this one.
		until := period * time.Duration(1+each.waits)
		c.cluster = each.cluster.steer(key.Protocol, counts, since, until, &c.misplaced)
		c.local = each.local.steer(key.Protocol, counts, since, until, &c.misplaced)
		all = c.appendIfDue(all)
	}
	return all
}

func (p pools) reset() (all []change) {
	for key, each := range p {
		c := change{pool: each, key: key}
		all = c.appendIfDue(all)
	}
	return all
}

// appendIfDue appends the change if the shares differ from those that were sent.
func (c *change) appendIfDue(all []change) []change {
	if slices.Equal(c.cluster, c.pool.cluster.Shares) && slices.Equal(c.local, c.pool.local.Shares) {
		c.waits = 0
		return all
	}
	return append(all, *c)
}

// steer returns the shares that the endpoints should have, and adds how many of their
// connections are above the level.
func (l *list) steer(p model.Protocol, counts map[endpoint]count, since, period time.Duration,
	misplaced *float64,
) []uint16 {
	if len(l.Endpoints) < 2 {
		return nil
	}
	loads, arrived := make([]load, len(l.Endpoints)), 0
	for i, e := range l.Endpoints {
		c := counts[endpoint{p, e}]
		loads[i] = load{float64(c.active), 1}
		if l.Weights != nil {
			loads[i].weight = float64(l.Weights[i])
		}
		if l.Steps.Eighths != nil {
			loads[i].weight *= float64(l.Steps.Eighths[i]) / model.FullStep
		}
		arrived += c.arrived
	}
	l.rate.add(float64(arrived), since)
	level := meanLevel(loads)
	for _, each := range loads {
		*misplaced += max(each.active-level*each.weight, 0)
	}
	return shares(loads, l.rate.expected(period), l.Shares)
}

func (l *list) cost(next []uint16) int {
	if slices.Equal(next, l.Shares) {
		return 0
	}
	return min(model.SharesPerEndpoint*len(l.Endpoints), model.MaxSlots)
}
