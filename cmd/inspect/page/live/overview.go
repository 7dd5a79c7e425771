package live

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

type service struct {
	key
	addresses []string
	endpoints nodestatus.Addresses
	listed    bool // by a node that was asked for all
	sum       sum
}

// sum is what the nodes know about a Service, added up.
type sum struct {
	rate     float64
	rated    bool // whether the rate of a node is known
	active   int
	count    uint64
	nodes    int // with connections
	bad      int // nodes where it is a problem
	noticed  int // nodes where it is a notice
	state    string
	severity string
}

// Overview is the state of the whole cluster.
type Overview struct {
	Time       time.Time `json:"time"`
	Generation int       `json:"generation"` // of the list of nodes
	// Every is how long a round of requests to all nodes takes, in seconds.
	Every    float64   `json:"every"`
	Error    string    `json:"error,omitempty"` // why the nodes cannot be listed
	Nodes    []Status  `json:"nodes"`
	Services []Line    `json:"services"`
	Problems []Problem `json:"problems"`
}

// States of a node.
const (
	NodeOK      = "ok"
	NodeProblem = "problem" // it answers, and there are problems on it
	NodeSilent  = "silent"  // it does not answer
	NodeMissing = "missing" // it has no kube-vmap that is ready
	NodeWaiting = "waiting" // it was not asked yet
)

// Line is a Service in the overview.
type Line struct {
	Namespace   string               `json:"namespace"`
	Name        string               `json:"name"`
	Addresses   []string             `json:"addresses"`
	Endpoints   nodestatus.Addresses `json:"endpoints"`
	Rate        *float64             `json:"rate"`
	Active      int                  `json:"active"`
	Connections uint64               `json:"connections"`
	State       string               `json:"state"`
	Severity    string               `json:"severity"`
	// Nodes is on how many nodes it has connections, Bad where it is not OK.
	Nodes int `json:"nodes"`
	Bad   int `json:"bad,omitempty"`
}

// Overview returns the current state.
func (c *Cluster) Overview() *Overview {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addUp()
	out := &Overview{
		Time: time.Now(), Generation: c.generation, Every: max(minPeriod, c.round()).Seconds(),
		Nodes: make([]Status, len(c.nodes)), Services: []Line{}, Problems: c.problems(),
	}
	if c.listError != nil {
		out.Error = c.listError.Error()
	}
	answering := 0
	for _, n := range c.nodes {
		if n.answered() {
			answering++
		}
	}
	own := own(out.Problems, answering)
	for i, n := range c.nodes {
		out.Nodes[i] = n.status(own[n.Name])
	}
	for _, s := range c.all() {
		out.Services = append(out.Services, s.line())
	}
	return out
}

// all returns the Services: those that are listed, and others that a node knows.
func (c *Cluster) all() []*service {
	out := slices.DeleteFunc(slices.Collect(maps.Values(c.services)), func(s *service) bool {
		return !s.listed && s.sum.nodes == 0 && s.sum.state == ""
	})
	slices.SortFunc(out, func(a, b *service) int { return a.compare(b.key) })
	return out
}

// addUp adds up what the nodes know. Numbers of a node that does not answer are old, and
// do not count. A rate is known if any node has one.
func (c *Cluster) addUp() {
	rated := slices.ContainsFunc(c.nodes, func(n *node) bool { return n.answered() && n.rated })
	for _, s := range c.services {
		s.sum = sum{rated: rated}
	}
	for _, n := range c.nodes {
		if !n.answered() {
			continue
		}
		for i := range n.lines {
			l := &n.lines[i]
			l.of.sum.add(l, n.rated)
		}
		for k, found := range n.states {
			c.serviceOf(k).sum.found(found)
		}
	}
}

func (s *sum) add(l *line, rated bool) {
	if rated {
		s.rate += float64(l.rate)
		s.rated = true
	}
	s.active += int(l.active)
	s.count += l.count
	if l.count > 0 || l.active > 0 {
		s.nodes++
	}
}

// found adds a node on which the Service is not OK. A problem outranks a notice, whatever
// the number of nodes; of several states, the first by name is shown.
func (s *sum) found(f state) {
	if f.severity == nodestatus.SeverityProblem {
		s.bad++
	} else {
		s.noticed++
	}
	worse := f.severity == nodestatus.SeverityProblem && s.severity != nodestatus.SeverityProblem
	if s.state == "" || worse || f.severity == s.severity && f.name < s.state {
		s.state, s.severity = f.name, f.severity
	}
}

func (s *service) line() Line {
	out := Line{
		Namespace: s.namespace, Name: s.name, Addresses: s.addresses, Endpoints: s.endpoints,
		Active: s.sum.active, Connections: s.sum.count, Nodes: s.sum.nodes, Bad: cmp.Or(s.sum.bad, s.sum.noticed),
		State: cmp.Or(s.sum.state, nodestatus.StateOK), Severity: cmp.Or(s.sum.severity, nodestatus.SeverityOK),
	}
	if out.Addresses == nil {
		out.Addresses = []string{}
	}
	if s.sum.rated {
		out.Rate = new(s.sum.rate)
	}
	return out
}

// Rows are Services on each node.
type Rows struct {
	// Generation is the generation of the list of nodes, which orders the numbers.
	Generation int   `json:"generation"`
	Rows       []Row `json:"rows"`
}

// Row is a Service on each node.
type Row struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Rates are new connections per second; nil where they are not known.
	Rates []*float32 `json:"rates"`
	// Bad are the indices of nodes on which it is a problem, Noticed where a notice.
	Bad     []int `json:"bad,omitempty"`
	Noticed []int `json:"noticed,omitempty"`
}

// MaxRows is how many Services may be asked for at a time.
const MaxRows = 200

// Rows returns Services on each node; each name is a namespace and a name.
func (c *Cluster) Rows(names [][2]string) *Rows {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &Rows{Generation: c.generation, Rows: make([]Row, len(names))}
	for i, name := range names[:min(len(names), MaxRows)] {
		out.Rows[i] = c.row(key{name[0], name[1]})
	}
	return out
}

func (c *Cluster) row(k key) Row {
	out := Row{Namespace: k.namespace, Name: k.name, Rates: make([]*float32, len(c.nodes))}
	for i, n := range c.nodes {
		if !n.answered() {
			continue
		}
		l := n.line(k)
		if n.rated {
			out.Rates[i] = new(float32)
			if l != nil {
				*out.Rates[i] = l.rate
			}
		}
		switch n.states[k].severity {
		case "":
		case nodestatus.SeverityProblem:
			out.Bad = append(out.Bad, i)
		default:
			out.Noticed = append(out.Noticed, i)
		}
	}
	return out
}

// NodeView is one node: the Services that the clients of a node use, and what is wrong there.
type NodeView struct {
	Time     time.Time `json:"time"`
	Node     Status    `json:"node"`
	Services []Line    `json:"services"`
	Problems []Problem `json:"problems"`
}

// Knows reports whether there is a node of a name, and whether the nodes are listed yet.
func (c *Cluster) Knows(name string) (known, listed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.nodes, func(n *node) bool { return n.Name == name }), c.generation > 0
}

// Node returns a node; one that is not known was not asked yet.
func (c *Cluster) Node(name string) *NodeView {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &NodeView{
		Time: time.Now(), Node: Status{Name: name, State: NodeWaiting}, Services: []Line{},
		Problems: []Problem{},
	}
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.Name == name })
	if i < 0 {
		return out
	}
	n := c.nodes[i]
	for i := range n.lines {
		l := &n.lines[i]
		s := service{key: l.of.key}
		s.sum.add(l, n.rated)
		if state, ok := n.states[l.of.key]; ok {
			s.sum.found(state)
		}
		out.Services = append(out.Services, s.line())
	}
	out.Problems = merge(n)
	out.Node = n.status(len(out.Problems))
	return out
}
