package live

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
)

const (
	// maxAsked is how many nodes are asked about one Service, those with the most
	// connections to it first.
	maxAsked = 12
	// maxFlows is how many endpoints of a Service are listed.
	maxFlows = 256
	// detailsPeriod is how long an answer about a Service is used.
	detailsPeriod = minPeriod - time.Second
	// maxDetails is how many answers about Services are kept, for rates.
	maxDetails = 32
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
}

// NodeDetails is what a node knows about a Service.
type NodeDetails struct {
	Name    string `json:"name"`
	Error   string `json:"error,omitempty"`
	Counted bool   `json:"counted"`
	// Known reports whether the node knows the Service.
	Known bool `json:"known"`
	// Ports have the frontends as this node sees them, and no endpoints.
	Ports []nodestatus.Port `json:"ports"`
	// Flows are the connections from here to each endpoint, over all ports; at most
	// maxFlows, and More is how many others there are.
	Flows []Flow `json:"flows"`
	More  int    `json:"more,omitempty"`

	countedAt time.Time
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
	// Ports are the endpoint's.
	Ports []uint16 `json:"ports"`
}

// Service asks nodes about a Service, at most every few seconds, and about one at a time.
func (c *Cluster) Service(ctx context.Context, namespace, name string) (*Details, error) {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return nil, errors.New("nodes are asked about other Services; try again")
	}
	k := key{namespace, name}
	before := c.details[k]
	if before != nil && time.Since(before.Time) < detailsPeriod {
		return before, nil
	}
	out := c.askAbout(ctx, k, before)
	if ctx.Err() != nil {
		return nil, errors.New("request canceled")
	}
	if len(c.details) >= maxDetails {
		clear(c.details)
	}
	c.details[k] = out
	return out, nil
}

// askAbout asks nodes about a Service; before is what they answered before, or nil.
func (c *Cluster) askAbout(ctx context.Context, k key, before *Details) *Details {
	out, chosen := c.choose(k)
	var asking sync.WaitGroup
	for i, n := range chosen {
		asking.Go(func() {
			d := &out.Nodes[i]
			d.Name = n.Name
			doc, err := c.source.Document(ctx, n, nodestatus.Query{Namespace: k.namespace, Name: k.name})
			if err != nil {
				d.Error = err.Error()
				return
			}
			d.fill(k, doc)
			d.rate(before)
		})
	}
	asking.Wait()
	out.Time = time.Now()
	return out
}

// choose returns the nodes to ask about a Service, and what is known of it without.
func (c *Cluster) choose(k key) (*Details, []nodes.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addUp()
	isOther := func(p Problem) bool { return key{p.Namespace, p.Name} != k }
	out := &Details{Problems: slices.DeleteFunc(c.problems(), isOther), OthersRate: new(float64)}
	if s := c.services[k]; s != nil {
		out.Service = new(s.line())
	}
	all := slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return !n.answered() })
	slices.SortStableFunc(all, func(a, b *node) int { return cmp.Compare(b.weight(k), a.weight(k)) })
	var chosen []nodes.Node
	for i, n := range all {
		if i < maxAsked {
			chosen = append(chosen, n.Node)
			continue
		}
		out.Others++
		if l := n.line(k); l != nil {
			*out.OthersRate += float64(l.rate)
		}
	}
	slices.SortFunc(chosen, func(a, b nodes.Node) int { return findings.CompareNames(a.Name, b.Name) })
	out.Nodes = make([]NodeDetails, len(chosen))
	return out, chosen
}

// weight orders nodes by what they have of a Service: connections first, then problems.
func (n *node) weight(k key) (w float64) {
	if l := n.line(k); l != nil {
		w = float64(l.rate) + float64(l.active)/1e3 + float64(l.count)/1e9
	}
	if _, bad := n.states[k]; bad {
		w += 1e-12
	}
	return w
}

func (d *NodeDetails) fill(k key, doc *nodestatus.Document) {
	d.Counted, d.countedAt = doc.Counted, doc.CountedAt
	d.Flows, d.Ports = []Flow{}, []nodestatus.Port{}
	i := slices.IndexFunc(doc.Services, func(s nodestatus.Service) bool {
		return key{s.Namespace, s.Name} == k
	})
	if i < 0 {
		return
	}
	d.Known = true
	for _, p := range doc.Services[i].Ports {
		p.Endpoints = nil
		d.Ports = append(d.Ports, p)
	}
	flows := flowsOf(&doc.Services[i])
	d.Flows = flows[:min(len(flows), maxFlows)]
	d.More = len(flows) - len(d.Flows)
}

// rate sets the rates, by what the node answered before.
func (d *NodeDetails) rate(before *Details) {
	if before == nil {
		return
	}
	i := slices.IndexFunc(before.Nodes, func(n NodeDetails) bool { return n.Name == d.Name && n.Counted && d.Counted })
	if i < 0 {
		return
	}
	seconds := d.countedAt.Sub(before.Nodes[i].countedAt).Seconds()
	last := map[string]uint64{}
	for _, f := range before.Nodes[i].Flows {
		last[f.Address] = f.Total
	}
	for i := range d.Flows {
		f := &d.Flows[i]
		if n, ok := last[f.Address]; ok && seconds > 0 && f.Total >= n {
			f.Rate = new(float64(f.Total-n) / seconds)
		}
	}
}

// flowsOf returns the connections to each endpoint, over all ports; sorted by address.
func flowsOf(s *nodestatus.Service) []Flow {
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
