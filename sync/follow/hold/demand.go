package hold

import (
	"maps"
	"net/netip"
	"slices"
	stdsync "sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

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
	// trackingPeriod is the least time between reads of connection tracking.
	trackingPeriod = 5 * time.Second
	// idleTime is after how long without a packet a connection of TCP is not active. shortTimeout is the
	// timeout of entries whose data are unacknowledged (nf_conntrack_tcp_timeout_unacknowledged).
	idleTime     = 5 * time.Minute
	shortTimeout = 5 * time.Minute
)

// Tracking is the kernel's connection tracking.
type Tracking interface {
	// EachReplied calls begin, which discards earlier entries, and then fn for every entry with a reply.
	EachReplied(begin func(), fn func(conntrack.Entry)) error
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

// A servedPort is a Service port, with its endpoints on this node.
type servedPort struct {
	service model.ServiceName
	here    []netip.AddrPort
}

// An endpoint is an address and port with a protocol.
type endpoint struct {
	model.Protocol
	netip.AddrPort
}

// demand is the demand for Services. All but each is used by the goroutine of [Hold].
type demand struct {
	frontends map[model.Match]servedPort // ClusterIPs of Services that may be scaled to zero
	services  map[model.ServiceName]int  // the numbers of these frontends
	peaks     [2]int                     // of frontends and services
	held      map[model.ServiceName]heldPackets
	active    map[model.ServiceName]int // zero if all connections have ended
	err       error                     // of the last read of connection tracking
	pace      throttle.Throttle         // of reads of connection tracking
	changed   chan struct{}             // capacity one

	mu   stdsync.Mutex
	last map[model.ServiceName]Demand
}

func newDemand(background *throttle.Budget) demand {
	return demand{
		frontends: map[model.Match]servedPort{}, services: map[model.ServiceName]int{},
		held: map[model.ServiceName]heldPackets{}, changed: make(chan struct{}, 1),
		pace: background.Throttle(trackingPeriod),
	}
}

// apply follows a commit.
func (d *demand) apply(c sync.Committed) {
	keep := func(f *model.Frontend, before servedPort, known bool) (now servedPort, keeps bool) {
		if !f.Pool.ScaleToZero || !f.IsClusterIP() {
			return now, false
		}
		now.service = f.Service.ServiceName
		for _, at := range f.Pool.FlowEndpoints {
			if _, here := slices.BinarySearchFunc(f.Pool.Hairpin, at.Addr(), netip.Addr.Compare); here {
				now.here = append(now.here, at)
			}
		}
		if !known || now.service != before.service {
			d.services[now.service]++
			if known {
				d.release(before.service)
			}
		}
		return now, true
	}
	follow.Update(d.frontends, c, keep, func(_ model.Match, p servedPort) { d.release(p.service) })
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

// readActive counts active connections, unless it was done shortly before. They count at the node of
// their endpoint, whoever translated them, so each counts once in the cluster. It returns the error of
// the last read.
func (d *demand) readActive(c *Config) error {
	if d.pace.Remaining() <= 0 {
		d.pace.Do(func() { d.err = d.countActive(c) })
	}
	return d.err
}

// countActive counts by endpoint first: many Services may name one that has many connections.
func (d *demand) countActive(c *Config) error {
	here := map[endpoint]sets.Set[model.ServiceName]{}
	for m, p := range d.frontends {
		for _, at := range p.here {
			at := endpoint{m.Protocol, at}
			if here[at] == nil {
				here[at] = sets.New[model.ServiceName]()
			}
			here[at].Insert(p.service)
		}
	}
	open := map[endpoint]int{}
	if len(here) > 0 {
		own, err := c.Addresses()
		if err != nil {
			return err
		}
		isOwn := func(a netip.Addr) bool {
			return slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr() == a })
		}
		timeout := c.TCPTimeout()
		err = c.Tracking.EachReplied(func() { clear(open) }, func(e conntrack.Entry) {
			at := endpoint{e.Protocol, e.Reply}
			// Half of a handshake is a probe of a node, or has a forged source.
			idle := e.Protocol == model.TCP && (!e.IsAssured() ||
				e.Open && e.Expires > shortTimeout && timeout-e.Expires >= idleTime)
			if here[at] == nil || e.Aborted || idle || e.Reply == e.Original && isOwn(e.Client.Addr()) {
				return
			}
			n := open[at]
			if e.Open {
				n++
			}
			open[at] = n
		})
		if err != nil {
			return err
		}
	}
	d.active = map[model.ServiceName]int{}
	for at, n := range open {
		for s := range here[at] {
			d.active[s] += n
		}
	}
	return nil
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
