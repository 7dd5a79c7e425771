package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/model"
	"kube-vmap/sync/follow/demand"
)

const (
	// reconnectTime is how long the demand of a node counts after its request has ended, because the
	// node sends another one, or could not report its last change.
	reconnectTime = demand.Refresh
	// settleTime is how long nodes take to report again after a restart: until the Pod is ready (2 s),
	// and its endpoint is in the kernel, up to 4 s for SYN to be sent again, and 1 s to report.
	settleTime = 10 * time.Second
	// maxServices is how many Services a node can have demand for, maxClients the most clients of one.
	maxServices = 200_000
	maxClients  = 1_000_000
	// maxName is the longest name of a namespace or a Service (RFC 1123).
	maxName = 63
)

// demands are the demand through all nodes. All methods may be called at any time.
type demands struct {
	mu       sync.Mutex
	settled  time.Time // when nodes have reported; zero if they cannot yet
	nodes    map[string]*node
	total    map[model.ServiceName]int // clients; a Service without demand is not in it
	watchers map[model.ServiceName]map[chan struct{}]struct{}
	open     int // requests of nodes
	reports  int // lines of them
	signals  int
}

// A node is what one has reported.
type node struct {
	last     *request // the newest one
	services map[model.ServiceName]reported
}

// reported is the number of clients that a request has reported.
type reported struct {
	clients int
	in      *request
}

// A request is one of a node.
type request struct {
	demands *demands
	node    string
	stop    func() // ends it
}

func newDemands() *demands {
	return &demands{
		nodes: map[string]*node{}, total: map[model.ServiceName]int{},
		watchers: map[model.ServiceName]map[chan struct{}]struct{}{},
	}
}

// unsettle notes that nodes may not have reported for a time.
func (d *demands) unsettle(wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if until := time.Now().Add(wait); until.After(d.settled) {
		d.settled = until
	}
}

// pollTime is how often await looks at the demand.
const pollTime = 100 * time.Millisecond

// await returns the number of clients of a Service after nodes have had the time to report; unless all
// are to be counted, before if there are any.
func (d *demands) await(ctx context.Context, s model.ServiceName, all bool) (int, error) {
	for {
		d.mu.Lock()
		n, known := d.total[s], !d.settled.IsZero() && time.Now().After(d.settled)
		d.mu.Unlock()
		if n > 0 && !all || known {
			return n, nil
		}
		select {
		case <-time.After(pollTime):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// watch returns a channel that delivers when clients begin to wait, or demand begins or ends, and a
// function that ends it.
func (d *demands) watch(s model.ServiceName) (signals <-chan struct{}, stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := make(chan struct{}, 1)
	if d.watchers[s] == nil {
		d.watchers[s] = map[chan struct{}]struct{}{}
	}
	d.watchers[s][c] = struct{}{}
	return c, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.watchers[s], c); len(d.watchers[s]) == 0 {
			delete(d.watchers, s)
		}
	}
}

// begin returns a new request of a node, which takes the place of the earlier one. stop ends it.
func (d *demands) begin(name string, stop func()) *request {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &request{d, name, stop}
	if n := d.nodes[name]; n == nil {
		d.nodes[name] = &node{services: map[model.ServiceName]reported{}}
	} else {
		n.last.stop()
	}
	d.nodes[name].last = r
	d.open++
	return r
}

// Why a report is invalid.
var (
	errReplaced = errors.New("the node has sent another request")
	errService  = errors.New("invalid name of a Service")
)

// report adds a report.
func (r *request) report(changes demand.Report) error {
	d := r.demands
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[r.node]
	if n == nil || n.last != r {
		return errReplaced
	}
	d.reports++
	for _, s := range changes.Services {
		name := model.ServiceName{Namespace: s.Namespace, Name: s.Name}
		_, known := n.services[name]
		switch {
		case len(s.Namespace) > maxName || len(s.Name) > maxName:
			return errService
		case s.Clients <= 0:
			d.set(n, name, reported{}, false)
		case !known && len(n.services) >= maxServices:
			return errors.New("too many Services")
		default:
			d.set(n, name, reported{min(s.Clients, maxClients), r}, s.Waiting)
		}
	}
	if changes.Complete {
		n.keep(d, r)
	}
	return nil
}

// keep removes what only requests other than r have reported.
func (n *node) keep(d *demands, r *request) {
	for s, was := range n.services {
		if was.in != r {
			d.set(n, s, reported{}, false)
		}
	}
}

// end ends a request. Its demand remains for a while, unless the node sends another request.
func (r *request) end() {
	d := r.demands
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	time.AfterFunc(reconnectTime, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if n := d.nodes[r.node]; n != nil && n.last == r {
			n.keep(d, nil)
			delete(d.nodes, r.node)
		}
	})
}

// set changes what a node has reported of a Service, and signals that.
func (d *demands) set(n *node, s model.ServiceName, now reported, waiting bool) {
	before := d.total[s]
	total := before + now.clients - n.services[s].clients
	if now.clients == 0 {
		delete(n.services, s)
	} else {
		n.services[s] = now
	}
	if total == 0 {
		delete(d.total, s)
	} else {
		d.total[s] = total
	}
	if (before > 0) == (total > 0) && !waiting {
		return
	}
	d.signals++
	for c := range d.watchers[s] {
		select {
		case c <- struct{}{}:
		default: // signaled already
		}
	}
}

// register adds metrics.
func (d *demands) register(registry prometheus.Registerer) {
	locked := func(value func() int) func() float64 {
		return func() float64 {
			d.mu.Lock()
			defer d.mu.Unlock()
			return float64(value())
		}
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, locked(value))
	}
	counter := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, locked(value))
	}
	registry.MustRegister(
		gauge("kubevmap_scaler_nodes", "Requests of nodes that report demand.", func() int { return d.open }),
		gauge("kubevmap_scaler_services", "Services with demand.", func() int { return len(d.total) }),
		gauge("kubevmap_scaler_watched_services", "Services of which KEDA receives signals.",
			func() int { return len(d.watchers) }),
		counter("kubevmap_scaler_reports_total", "Reports of nodes.", func() int { return d.reports }),
		counter("kubevmap_scaler_signals_total", "Changes of Services that watchers receive: clients begin to wait, "+
			"or demand begins or ends.", func() int { return d.signals }),
	)
}
