package hold

import (
	"maps"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/throttle"
)

const (
	// demandTime is how long there is demand after the last held packet: until the connection that
	// it began is seen in connection tracking, perhaps of another node.
	demandTime = nft.HeldTime
	// resumeTime is how long connections are rejected after a hold. Clients that try again within half
	// a minute after it keep up the demand.
	resumeTime = demandTime - 30*time.Second
	// trackingPeriod is the least time between reads of connection tracking, trackingFactor times the
	// processor time of one is the pause after it.
	trackingPeriod = 5 * time.Second
	trackingFactor = 20
)

// Tracking is the kernel's connection tracking.
type Tracking interface {
	// EachTranslated calls begin, which discards earlier entries, and then fn for every
	// entry whose destination was translated.
	EachTranslated(begin func(), fn func(conntrack.Entry)) error
}

// Demand is the demand for a Service.
type Demand struct {
	// Clients counts those that wait, and active connections; at least 1.
	Clients int
	// Began is when the first packet of the last outage was held, if one was within [nft.HeldTime].
	Began time.Time
}

// heldPackets says when packets of a Service were held: the first one of the last outage, and the last
// one.
type heldPackets struct{ first, last time.Time }

// demand is the demand for Services. All but each is used by the goroutine of [Hold].
type demand struct {
	frontends map[model.Match]model.ServiceName // of Services that may be scaled to zero
	services  map[model.ServiceName]int         // the numbers of these frontends
	peaks     [2]int                            // of frontends and services
	held      map[model.ServiceName]heldPackets
	active    map[model.ServiceName]int // zero if all connections have ended
	err       error                     // of the last read of connection tracking
	pace      throttle.Throttle         // of reads of connection tracking
	changed   chan struct{}             // capacity one

	mu   stdsync.Mutex
	last map[model.ServiceName]Demand
}

func newDemand() demand {
	return demand{
		frontends: map[model.Match]model.ServiceName{}, services: map[model.ServiceName]int{},
		held: map[model.ServiceName]heldPackets{}, changed: make(chan struct{}, 1),
		pace: throttle.Throttle{Factor: trackingFactor, Min: trackingPeriod, ProcessorTime: sync.ThreadCPUTime},
	}
}

// apply follows a commit.
func (d *demand) apply(c sync.Committed) {
	keep := func(f *model.Frontend, before model.ServiceName, known bool) (now model.ServiceName, keeps bool) {
		now = f.Service.ServiceName
		if f.Pool.ScaleToZero && (!known || now != before) {
			d.services[now]++
			if known {
				d.release(before)
			}
		}
		return now, f.Pool.ScaleToZero
	}
	follow.Update(d.frontends, c, keep, func(_ model.Match, s model.ServiceName) { d.release(s) })
	d.frontends, d.services = model.Shrink(d.frontends, &d.peaks[0]), model.Shrink(d.services, &d.peaks[1])
	if len(d.frontends) == 0 {
		d.publish(time.Time{}, nil)
	}
}

// release takes a frontend from a Service, which has no demand after the last one.
func (d *demand) release(s model.ServiceName) {
	if d.services[s]--; d.services[s] == 0 {
		delete(d.services, s)
		delete(d.held, s)
		delete(d.active, s)
	}
}

// packet notes the time of a held packet, the first one of an outage or another.
func (d *demand) packet(of model.ServiceName, at time.Time, first bool) {
	h := d.held[of]
	if first || h.last.IsZero() {
		h.first = at
	}
	if at.After(h.last) {
		h.last = at
	}
	d.held[of] = h
}

// readActive counts active connections, unless it was done shortly before. They count where they
// are translated, so each counts once in the cluster. It returns the error of the last read.
func (d *demand) readActive(t Tracking, nodes model.NodeAddrs) error {
	if d.pace.Remaining() > 0 {
		return d.err
	}
	var active map[model.ServiceName]int
	d.pace.Do(func() {
		d.err = t.EachTranslated(func() { active = map[model.ServiceName]int{} }, func(e conntrack.Entry) {
			to := model.Match{
				Family: model.FamilyOf(e.Original.Addr()), Protocol: e.Protocol, Addr: e.Original.Addr(), Port: e.Original.Port(),
			}
			if _, service, found := model.Find(d.frontends, nodes, to); found {
				n := active[service]
				if e.Open {
					n++
				}
				active[service] = n
			}
		})
	})
	if d.err == nil {
		d.active = active
	}
	return d.err
}

// publish makes the current demand available. waiting are the clients that wait.
func (d *demand) publish(now time.Time, waiting map[model.ServiceName]int) {
	all := make(map[model.ServiceName]Demand, len(d.active)+len(d.held))
	for s, n := range d.active {
		all[s] = Demand{Clients: n}
	}
	for s, n := range waiting {
		if d.services[s] > 0 {
			all[s] = Demand{Clients: all[s].Clients + n}
		}
	}
	maps.DeleteFunc(d.held, func(_ model.ServiceName, h heldPackets) bool { return now.Sub(h.last) >= demandTime })
	for s, h := range d.held {
		all[s] = Demand{all[s].Clients, h.first}
	}
	for s, one := range all {
		one.Clients = max(one.Clients, 1)
		all[s] = one
	}
	d.mu.Lock()
	d.last = all
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default: // signaled already
	}
}

// published returns the demand that was published last. It may be called at any time.
func (d *demand) published() map[model.ServiceName]Demand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}
