package live

import (
	"slices"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

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
