// Package preflight is kube-vmap preflight: it finds out on a node, before kube-vmap is
// installed there, whether something prevents that. It changes nothing.
//
//	checks.go     kernel, sysctls, fast path, API server
//	rules.go      chains that drop forwarded or incoming packets, rules that change the mark's bit
//	proxy.go      which proxy runs in which mode, and whether taking over can be undone
//	known ones    package components; each has a row in docs/compatibility.md
//	      |
//	      v
//	[Report]: an [Item] for each, with a verdict
//
// A check that lacks a privilege gives an item with the verdict unknown, so that an
// incomplete report never looks complete.
package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"kube-vmap/cmd/components"
	"kube-vmap/cmd/inspect/output"
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

// fine returns an item for a check that found nothing.
func fine(name string, evidence ...string) Item { return noted(name, "", evidence...) }

// noted returns an item for what may be worth reading.
func noted(name, detail string, evidence ...string) Item {
	return Item{Name: name, Verdict: components.Fine, Detail: detail, Evidence: evidence}
}

// needs returns an item for something that has to be done.
func needs(name, detail string, evidence ...string) Item {
	return Item{Name: name, Verdict: components.Needs, Detail: detail, Evidence: evidence}
}

// unknown returns an item for something that could not be checked.
func unknown(name string, err error) Item {
	detail := err.Error()
	if errors.Is(err, fs.ErrPermission) {
		detail = "not permitted; run it as root, or with CAP_NET_ADMIN"
	}
	return Item{Name: name, Verdict: Unknown, Detail: detail}
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
	items := append(n.kernel(), n.sysctls()...)
	items = append(items, n.policies()...)
	items = append(items, n.mark())
	items = append(items, n.legacyTables()...)
	if c.Kubeconfig != "" {
		items = append(items, apiServer(ctx, c.Kubeconfig))
	}
	items = append(items, n.components()...)
	if tables := components.Unrecognized(n.Node); len(tables) > 0 {
		items = append(items, noted("other tables",
			"not recognized: packets pass them, too; kube-vmap explain shows what they do with one", tables...))
	}
	items = append(items, n.fastPath())
	if n.Nested {
		items = append(items, noted("processes",
			"the node is a container itself: programs of the machine around it are not visible", "those of this node"))
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

// components returns an item for each component on the node.
func (n *node) components() (items []Item) {
	for _, f := range components.Find(n.Node) {
		items = append(items, Item{f.Name, f.ID, f.Verdict, f.Advice, f.Evidence, "docs/compatibility.md#" + f.ID})
	}
	return n.proxies(items)
}

var formats = output.Formats{"wide", "json"}

// Print writes the report as a table, or as JSON.
func (r *Report) Print(w io.Writer, format string) error {
	if format == "json" {
		return output.Write(w, format, r)
	}
	t := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0)
	_, _ = fmt.Fprintln(t, "NAME\tVERDICT\tEVIDENCE\tDETAIL\tSEE") // Flush returns the error
	for _, i := range r.Items {
		evidence := strings.Join(i.Evidence, "; ")
		if more := len(i.Evidence) - 1; more > 0 && format != "wide" {
			evidence = fmt.Sprintf("%s + %d more", i.Evidence[0], more)
		}
		_, _ = fmt.Fprintln(t, strings.Join([]string{
			i.Name, string(i.Verdict), cell(evidence), cell(i.Detail),
			cell(i.See),
		}, "\t"))
	}
	return t.Flush()
}

// cell returns a text on one line, as kubectl prints it.
func cell(text string) string {
	return strings.NewReplacer("\n", "; ", "\t", " ").Replace(cmp.Or(text, "-"))
}
