// Package live adds up the connections and problems of a whole cluster while the page is open.
//
//	Watch --> Cluster --Source--> every node: tally (connections of each Service, states)
//	             |                            findings (what is not plainly balanced), rarely
//	             |                one node:   list of all Services, every 20 seconds
//	             v
//	          Overview: nodes, Services with the sums, merged problems
//	          Rows:     a Service on each node
//	          Service:  one Service, from which nodes its connections come and where they go
//
// What it costs is bounded (period): a node is asked at most every 5 seconds, and less
// often in large clusters, if its answers take long, or if they are large. No node is asked
// later than 30 seconds after the last [Cluster.Watch]. A node that does not answer costs its
// own time-out; it is asked less and less often, and the sums are of the others.
package live

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
)

// Cluster has what the nodes of a cluster answered last.
type Cluster struct {
	source Source
	mu     sync.Mutex // guards the following
	looked time.Time  // the last Watch
	nodes  []*node    // in the order of numbers in their names
	// generation changes with the list of nodes.
	generation  int
	inFlight    int
	listed      time.Time // when the list of nodes was last asked for
	listing     bool
	listError   error
	services    map[key]*service
	catalogued  time.Time // when a node was last asked for the list of all Services
	cataloguing bool
	details     map[key]*Details // the last answers
	asking      chan struct{}    // has an item while nodes are asked about a Service
}

type key struct{ namespace, name string }

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.namespace, o.namespace), cmp.Compare(k.name, o.name))
}

// New returns the state of a cluster, of which nothing is known yet. See [Cluster.Run].
func New(s Source) *Cluster {
	return &Cluster{
		source: s, services: map[key]*service{}, details: map[key]*Details{}, asking: make(chan struct{}, 1),
	}
}

// Watch makes [Cluster.Run] ask the nodes for some time.
func (c *Cluster) Watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = time.Now()
}

// Run asks the nodes until the context ends.
func (c *Cluster) Run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		for _, work := range c.due(time.Now()) {
			asking.Go(func() { work(ctx) })
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (c *Cluster) due(now time.Time) (work []func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) > attention {
		return nil
	}
	if !c.listing && (c.listed.IsZero() || now.Sub(c.listed) >= c.listPeriod()) {
		c.listing, c.listed = true, now
		work = append(work, c.list)
	}
	waiting := slices.SortedFunc(slices.Values(c.nodes), func(a, b *node) int { return a.next.Compare(b.next) })
	for _, n := range waiting {
		if c.inFlight >= maxInFlight || n.next.After(now) {
			break
		}
		if n.asking || n.Missing {
			continue
		}
		n.asking = true
		c.inFlight++
		of := n.Node
		work = append(work, func(ctx context.Context) { c.query(ctx, n, of) })
	}
	lists := func(n *node) bool { return n.answered() && n.tally.Summary.Services > 0 }
	i := slices.IndexFunc(c.nodes, lists)
	if i >= 0 && !c.cataloguing && now.Sub(c.catalogued) >= cataloguePeriod {
		c.cataloguing, c.catalogued = true, now
		n := c.nodes[i].Node
		work = append(work, func(ctx context.Context) { c.readCatalogue(ctx, n) })
	}
	return work
}

// listPeriod is short after an error.
func (c *Cluster) listPeriod() time.Duration {
	if c.listError != nil {
		return minPeriod
	}
	return listPeriod
}

func (c *Cluster) list(ctx context.Context) {
	all, err := c.source.Nodes(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listing, c.listError = false, err
	if err != nil {
		return
	}
	known := map[string]*node{}
	for _, n := range c.nodes {
		known[n.Name] = n
	}
	next := make([]*node, len(all))
	for i, of := range all {
		n := cmp.Or(known[of.Name], &node{})
		if n.Pod != of.Pod { // another process, of which nothing is known
			n.failures, n.next = 0, time.Time{}
		}
		n.Node = of
		next[i] = n
	}
	slices.SortFunc(next, func(a, b *node) int { return findings.CompareNames(a.Name, b.Name) })
	if !slices.Equal(next, c.nodes) {
		c.nodes = next
		c.generation++
	}
	c.forget()
}

// forget removes Services that no node reports. Nodes choose the names, and could
// report others each time.
func (c *Cluster) forget() {
	reported := map[key]bool{}
	for _, n := range c.nodes {
		for i := range n.lines {
			reported[n.lines[i].of.key] = true
		}
		for k := range n.states {
			reported[k] = true
		}
	}
	maps.DeleteFunc(c.services, func(k key, s *service) bool { return !s.listed && !reported[k] })
}

func (c *Cluster) serviceOf(k key) *service {
	s := c.services[k]
	if s == nil {
		s = &service{key: k}
		c.services[k] = s
	}
	return s
}

func (c *Cluster) readCatalogue(ctx context.Context, n nodes.Node) {
	doc, err := c.source.Document(ctx, n, nodestatus.Query{Brief: true})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cataloguing = false; err != nil {
		return
	}
	for _, s := range c.services {
		s.listed = false
	}
	for i := range doc.Services {
		d := &doc.Services[i]
		s := c.serviceOf(key{d.Namespace, d.Name})
		s.listed, s.endpoints, s.addresses = true, d.EndpointCount(), addressesOf(d)
	}
}

// addressesOf returns the addresses of a Service's frontends, the ClusterIP first.
func addressesOf(s *nodestatus.Service) []string {
	out := []string{}
	for i := range s.Ports {
		p := &s.Ports[i]
		for j := range p.Frontends {
			out = append(out, p.Frontends[j].At(p.Protocol))
		}
	}
	return out
}

// Source asks nodes.
type Source interface {
	Nodes(ctx context.Context) ([]nodes.Node, error)
	Reader
}

// A Reader reads what a node says of itself.
type Reader interface {
	Tally(ctx context.Context, n nodes.Node) (*nodestatus.Tally, error)
	// Findings returns nil where nothing is known beyond the tally.
	Findings(ctx context.Context, n nodes.Node) ([]findings.Finding, error)
	Document(ctx context.Context, n nodes.Node, q nodestatus.Query) (*nodestatus.Document, error)
}

const (
	// minPeriod is the shortest time from one question to a node to the next.
	minPeriod = 5 * time.Second
	// nodeInterval times the number of nodes is how long a round takes at least: the API
	// server, which forwards all requests, gets at most 20 of them per second.
	nodeInterval = 50 * time.Millisecond
	// tookFactor times the duration of its last answer is how long a node is not asked, after
	// the second answer: it works at most a fiftieth of the time.
	tookFactor = 50
	// maxLines is how many Services of nodes arrive per second, on average. Each has some
	// 80 bytes.
	maxLines = 25_000
	// maxInFlight is how many nodes are asked at a time.
	maxInFlight = 64
	// findingsFactor is after how many tallies the findings of a node are read again.
	findingsFactor = 6
	// listPeriod is the time from one list of nodes to the next.
	listPeriod = time.Minute
	// cataloguePeriod is the same for the list of all Services.
	cataloguePeriod = 20 * time.Second
	// maxBackoff is how long a node that does not answer is left alone at most.
	maxBackoff = 2 * time.Minute
	// attention is how long nodes are asked after the last look.
	attention = 30 * time.Second
	// tick is how often to look for nodes whose turn it is.
	tick = 100 * time.Millisecond
)

// period returns the time from one question to a node to the next.
func (c *Cluster) period(n *node) time.Duration {
	if n.tallies == 1 && n.failures == 0 {
		return max(minPeriod, n.took) // two tallies make a rate, for which a viewer waits
	}
	p := max(minPeriod, c.round(), tookFactor*n.took)
	if n.failures > 0 {
		return max(min(p<<min(n.failures, 10), maxBackoff), c.round())
	}
	return p
}

// round returns how long it takes at least to ask every node once.
func (c *Cluster) round() time.Duration {
	lines := 0
	for _, n := range c.nodes {
		lines += len(n.lines)
	}
	return max(time.Duration(len(c.nodes))*nodeInterval, time.Duration(lines)*time.Second/maxLines)
}
