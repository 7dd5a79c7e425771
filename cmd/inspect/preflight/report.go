package preflight

import (
	"cmp"
	"context"
	"os"
	"slices"

	"kube-vmap/cmd/components"
)

// Unknown is the verdict on what could not be checked; the others are those of package
// components.
const Unknown components.Verdict = "unknown"

// order has the verdicts from the best to the worst. A report has the worst one of its items.
var order = []components.Verdict{components.Fine, Unknown, components.Needs, components.Conflict}

// A Report is what was found on a node.
type Report struct {
	Kind    string             `json:"kind"` // Preflight
	Node    string             `json:"node"`
	Verdict components.Verdict `json:"verdict"`
	Items   []Item             `json:"items"`
}

// An Item is one check, or one component that is on the node.
type Item struct {
	// Name is that of the check; Component is the ID of a component.
	Name      string             `json:"name"`
	Component string             `json:"component,omitempty"`
	Verdict   components.Verdict `json:"verdict"`
	// Detail is what is needed, or why it is a conflict or unknown.
	Detail string `json:"detail,omitempty"`
	// Evidence is what was found.
	Evidence []string `json:"evidence,omitempty"`
	// See is the part of the documentation that explains it.
	See string `json:"see,omitempty"`
}

// Config configures [Run].
type Config struct {
	// Kubeconfig is the file with the address of the API server, which is not checked if it is
	// empty.
	Kubeconfig string
	// Node says where to look.
	Node components.Config
}

// Run checks the node. Network objects are those of the network namespace of the calling
// thread.
func Run(ctx context.Context, c Config) *Report {
	n := &node{Node: components.Read(c.Node), proc: cmp.Or(c.Node.Proc, "/proc")}
	if n.isRunning() {
		n.Ports = nil // those of a proxy's servers are our own
	}
	items := n.kernel()
	items = append(items, n.memory(), n.conntrack())
	items = append(items, n.sysctls()...)
	items = append(items, n.policies()...)
	items = append(items, n.mark())
	items = append(items, n.legacyTables()...)
	if c.Kubeconfig != "" {
		items = append(items, apiServer(ctx, c.Kubeconfig))
	}
	items = append(items, n.components()...)
	if tables := components.Unrecognized(n.Node); len(tables) > 0 {
		items = append(items, Item{
			Name: "other tables", Verdict: components.Fine, Evidence: tables,
			Detail: "not recognized: packets pass them, too; kube-vmap explain shows what they do with one",
		})
	}
	items = append(items, n.fastPath())
	if n.Nested {
		items = append(items, Item{
			Name: "processes", Verdict: components.Fine, Evidence: []string{"those of this node"},
			Detail: "the node is a container itself: programs of the machine around it are not visible",
		})
	}
	for _, u := range n.Unseen {
		items = append(items, unknown("access to "+u.What, u.Err))
	}
	r := &Report{Kind: "Preflight", Verdict: components.Fine, Items: items}
	r.Node, _ = os.Hostname() // a report without it is still a report
	for _, i := range items {
		if slices.Index(order, i.Verdict) > slices.Index(order, r.Verdict) {
			r.Verdict = i.Verdict
		}
	}
	return r
}

// node is the node that is checked.
type node struct {
	*components.Node
	proc string
	// noLabels is true if the kernel has no labels of connections.
	noLabels bool
}

// blind returns why tables could not be read; nil if they were.
func (n *node) blind() error {
	for _, u := range n.Unseen {
		if u.What == components.NFTables || u.What == components.LegacyTables {
			return u.Err
		}
	}
	return nil
}

// components returns an item for each component on the node.
func (n *node) components() (items []Item) {
	for _, f := range components.Find(n.Node) {
		i := Item{
			Name: f.Name, Component: f.ID, Verdict: f.Verdict, Detail: f.Advice, Evidence: f.Evidence,
			See: "docs/compatibility.md#" + f.ID,
		}
		items = append(items, i)
	}
	return n.proxies(items)
}
