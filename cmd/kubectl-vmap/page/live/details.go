package live

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

const (
	// maxAsked is how many nodes are asked about one Service, those with the most
	// connections to it first.
	maxAsked = 12
	// maxFlows is how many endpoints of a Service are listed.
	maxFlows = 256
	// detailsPeriod is how long an answer about a Service is used.
	detailsPeriod = minPeriod - time.Second
)

// Details are what nodes know about one Service.
type Details struct {
	Time time.Time `json:"time"`
	// Nodes are those that were asked.
	Nodes []NodeDetails `json:"nodes"`
	// Others are the nodes that were not asked, with their new connections per second.
	Others     int       `json:"others"`
	OthersRate *float64  `json:"othersRate"`
	Service    *Line     `json:"service"` // nil if no node knows it
	Problems   []Problem `json:"problems"`
	// Differences are what some of the asked nodes know, and others do not.
	Differences []Difference `json:"differences"`
}

// NodeDetails is what a node knows about a Service.
type NodeDetails struct {
	Name    string `json:"name"`
	Error   string `json:"error,omitempty"`
	Counted bool   `json:"counted"`
	// Known reports whether the node knows the Service.
	Known bool `json:"known"`
	// Ports have the frontends as this node sees them, and no endpoints.
	Ports []status.Port `json:"ports"`
	// Flows are the connections from here to each endpoint, over all ports; at most
	// maxFlows, and More is how many others there are.
	Flows []Flow `json:"flows"`
	More  int    `json:"more,omitempty"`
}

// Flow is the connections of a node's clients to an endpoint of a Service.
type Flow struct {
	Address string   `json:"address"`
	Node    string   `json:"node"` // of the endpoint; empty if not known
	Rate    *float64 `json:"rate"`
	Active  int      `json:"active"`
	Total   uint64   `json:"connections"`
	// Reason is why it gets no new connections from here.
	Reason string `json:"reason,omitempty"`
	// Ports are those of the endpoint.
	Ports []uint16 `json:"ports"`
}

// details keeps the last answers about a Service, for rates.
type details struct {
	mu   sync.Mutex // guards what follows, also while nodes are asked
	of   key
	made time.Time
	last *Details
	docs map[string]*status.Document // by node
}

// Service asks nodes about a Service, at most every few seconds.
func (c *Cluster) Service(ctx context.Context, namespace, name string) (*Details, error) {
	k := key{namespace, name}
	d := &c.details
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == k && time.Since(d.made) < detailsPeriod {
		return d.last, nil
	}
	if d.of != k {
		d.docs = nil
	}
	out, docs := c.askAbout(ctx, k, d.docs)
	if err := ctx.Err(); err != nil {
		return nil, errors.New("the question was given up")
	}
	d.of, d.made, d.last, d.docs = k, time.Now(), out, docs
	return out, nil
}

// askAbout asks nodes about a Service; before are their last answers.
func (c *Cluster) askAbout(ctx context.Context, k key, before map[string]*status.Document) (*Details, map[string]*status.Document) {
	out, chosen := c.choose(k)
	docs := make([]*status.Document, len(chosen))
	var asking sync.WaitGroup
	for i, n := range chosen {
		asking.Go(func() {
			doc, err := c.source.Document(ctx, n, status.Query{Namespace: k.namespace, Name: k.name})
			out.Nodes[i].Name = n.Name
			if err != nil {
				out.Nodes[i].Error = err.Error()
				return
			}
			docs[i] = doc
			out.Nodes[i].fill(k, doc, before[n.Name])
		})
	}
	asking.Wait()
	kept := map[string]*status.Document{}
	for i, n := range chosen {
		if docs[i] != nil {
			kept[n.Name] = docs[i]
		}
	}
	out.Time, out.Differences = time.Now(), differences(out.Nodes)
	return out, kept
}

// choose returns the nodes to ask about a Service, and what is known of it without.
func (c *Cluster) choose(k key) (*Details, []nodes.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addUp()
	out := &Details{Problems: []Problem{}}
	if s := c.services[k]; s != nil {
		line := s.line()
		out.Service = &line
	}
	for _, p := range c.problems() {
		if p.Namespace == k.namespace && p.Name == k.name {
			out.Problems = append(out.Problems, p)
		}
	}
	var all []*node
	for _, n := range c.nodes {
		if n.answered() {
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b *node) int {
		_, badA := a.states[k]
		_, badB := b.states[k]
		return cmp.Or(-cmp.Compare(a.weight(k), b.weight(k)), -compareBool(badA, badB))
	})
	rest := all[min(len(all), maxAsked):]
	out.Others = len(rest)
	var rate float64
	for _, n := range rest {
		if l := n.line(k); l != nil {
			rate += float64(l.rate)
		}
	}
	out.OthersRate = &rate
	var chosen []nodes.Node
	for _, n := range all[:len(all)-len(rest)] {
		chosen = append(chosen, n.Node)
	}
	slices.SortFunc(chosen, func(a, b nodes.Node) int { return findings.CompareNames(a.Name, b.Name) })
	out.Nodes = make([]NodeDetails, len(chosen))
	return out, chosen
}

// weight orders nodes by what they have of a Service.
func (n *node) weight(k key) float64 {
	l := n.line(k)
	if l == nil {
		return 0
	}
	return float64(l.rate) + float64(l.active)/1e3 + float64(l.count)/1e9
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// fill fills in what a document has about a Service; before is the previous document, or nil.
func (d *NodeDetails) fill(k key, doc, before *status.Document) {
	d.Counted = doc.Counted
	d.Flows, d.Ports = []Flow{}, []status.Port{}
	s := serviceIn(doc, k)
	if s == nil {
		return
	}
	d.Known = true
	for _, p := range s.Ports {
		p.Endpoints = nil
		d.Ports = append(d.Ports, p)
	}
	flows := flowsOf(s)
	var seconds float64
	last := map[string]uint64{}
	if before != nil && doc.Counted && before.Counted {
		seconds = doc.CountedAt.Sub(before.CountedAt).Seconds()
		if was := serviceIn(before, k); was != nil {
			for _, f := range flowsOf(was) {
				last[f.Address] = f.Total
			}
		}
	}
	for i := range flows {
		f := &flows[i]
		if n, ok := last[f.Address]; ok && seconds > 0 && f.Total >= n {
			rate := float64(f.Total-n) / seconds
			f.Rate = &rate
		}
	}
	d.Flows = flows[:min(len(flows), maxFlows)]
	d.More = len(flows) - len(d.Flows)
}

func serviceIn(doc *status.Document, k key) *status.Service {
	for i := range doc.Services {
		if s := &doc.Services[i]; s.Namespace == k.namespace && s.Name == k.name {
			return s
		}
	}
	return nil
}

// flowsOf returns the connections to each endpoint, over all ports; sorted by address.
func flowsOf(s *status.Service) []Flow {
	byAddress := map[string]*Flow{}
	for i := range s.Ports {
		for j := range s.Ports[i].Endpoints {
			e := &s.Ports[i].Endpoints[j]
			f := byAddress[e.Address]
			if f == nil {
				f = &Flow{Address: e.Address, Node: e.Node, Reason: e.Reason}
				byAddress[e.Address] = f
			}
			if e.Used() {
				f.Reason = ""
			}
			f.Active += e.Active
			f.Total += e.Connections
			if !slices.Contains(f.Ports, e.Port) {
				f.Ports = append(f.Ports, e.Port)
			}
		}
	}
	out := make([]Flow, 0, len(byAddress))
	for _, f := range byAddress {
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Flow) int { return findings.CompareNames(a.Address, b.Address) })
	return out
}
