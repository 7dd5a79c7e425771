// Package preflight is kube-vmap preflight: it finds out on a node, before kube-vmap is
// installed there, whether something prevents that. It changes nothing.
//
//	checks.go     all checks in order; kernel, sysctls, API server; which proxy runs in which
//	              mode, and whether taking over can be undone; packets of Services and health
//	              checks, simulated as after the take-over
//	known ones    package components; each has a row in docs/compatibility.md
//	      |
//	      v
//	[Report]: an [Item] for each, with a verdict
//
// A check that lacks a privilege gives an item with the verdict unknown, so an
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

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/programs"
	"kube-vmap/nft/kernel/socket"
)

// Unknown is the verdict on what could not be checked; the others are in package
// programs.
const Unknown programs.Verdict = "unknown"

// order has the verdicts from the best to the worst. A report has the worst one of its items.
var order = []programs.Verdict{programs.Fine, programs.Partial, Unknown, programs.Needs, programs.Conflict}

// A Report is what was found on a node.
type Report struct {
	Kind    string           `json:"kind"` // Preflight
	Node    string           `json:"node"`
	Verdict programs.Verdict `json:"verdict"`
	Items   []Item           `json:"items"`
}

// An Item is one check, or one component that is on the node.
type Item struct {
	// Name is the name of the check; Component is the ID of a component.
	Name      string           `json:"name"`
	Component string           `json:"component,omitempty"`
	Verdict   programs.Verdict `json:"verdict"`
	// Detail is what is needed, or why it is a conflict or unknown.
	Detail string `json:"detail,omitempty"`
	// Evidence is what was found.
	Evidence []string `json:"evidence,omitempty"`
	// See is the part of the documentation that explains it.
	See string `json:"see,omitempty"`
}

// item returns an item with the verdict fine. Detail may be worth reading.
func item(name, detail string, evidence ...string) Item {
	return Item{Name: name, Verdict: programs.Fine, Detail: detail, Evidence: evidence}
}

func (i Item) needs(detail string) Item {
	i.Verdict, i.Detail = programs.Needs, detail
	return i
}

func (i Item) unknown(err error) Item {
	i.Verdict, i.Detail, i.Evidence = Unknown, err.Error(), nil // it may be of a part only
	if errors.Is(err, fs.ErrPermission) {
		i.Detail = "not permitted; run it as root, or with " + socket.MissingCapability(err)
	}
	return i
}

// Config configures [Run].
type Config struct {
	// Kubeconfig is the file with the address of the API server, which is not checked if it is
	// empty.
	Kubeconfig string
	// Node says where to look.
	Node programs.Config
}

// Run checks the node. Network objects are in the network namespace of the calling
// thread.
func Run(ctx context.Context, c Config) *Report {
	n := &node{Node: programs.Read(c.Node), proc: cmp.Or(c.Node.Proc, "/proc")}
	if n.isRunning() {
		n.Ports = nil // a proxy's servers are our own
	}
	n.check(ctx, c.Kubeconfig)
	for _, u := range n.Unseen {
		n.add(item("access to "+u.What, ""), u.Err)
	}
	r := &Report{Kind: "Preflight", Verdict: programs.Fine, Items: n.items}
	r.Node, _ = os.Hostname() // a report without it is still a report
	for _, i := range r.Items {
		if slices.Index(order, i.Verdict) > slices.Index(order, r.Verdict) {
			r.Verdict = i.Verdict
		}
	}
	return r
}

type node struct {
	*programs.Node
	proc  string
	items []Item
}

func (n *node) add(i Item, err error) {
	if err != nil {
		i = i.unknown(err)
	}
	n.items = append(n.items, i)
}

// components adds an item for each component on the node, and for what is not recognized.
func (n *node) components() {
	first := len(n.items)
	for _, f := range programs.Find(n.Node) {
		n.add(Item{f.Name, f.ID, f.Verdict, f.Advice, f.Evidence, "docs/compatibility.md#" + f.ID}, nil)
	}
	i := slices.IndexFunc(n.items, func(i Item) bool { return strings.HasPrefix(i.Component, programs.KubeProxy) })
	if i < 0 {
		i, n.items = first, slices.Insert(n.items, first, item("kube-proxy", "", "none"))
	}
	if err := n.proxy(&n.items[i]); err != nil {
		n.items[i] = n.items[i].unknown(err)
	}
	var legacy []string
	for i := range n.Tables {
		if t := &n.Tables[i]; t.Legacy {
			legacy = append(legacy, "table "+t.Family+" "+t.Name)
		}
	}
	for _, i := range []Item{
		item("iptables-legacy", "in use next to nf_tables, which does not list them", legacy...),
		item("other tables", "not recognized: packets pass them, too; kube-vmap explain shows what they do with one",
			programs.Unrecognized(n.Node)...),
	} {
		if len(i.Evidence) > 0 {
			n.add(i, nil)
		}
	}
	if n.Nested {
		n.add(item("processes", "the node is a container itself: programs of the machine around it are not visible",
			"this node's"), nil)
	}
}

var formats = output.Formats{"wide", "json"}

// textWidth is the width of the column of texts. The others take about 40 columns.
const textWidth = 60

// Print writes the report as a table, or as JSON.
func (r *Report) Print(w io.Writer, format string) error {
	if format == "json" {
		return output.Write(w, format, r)
	}
	rows := [][]string{{"NAME", "VERDICT", "EVIDENCE"}}
	for _, i := range r.Items {
		evidence := strings.Join(i.Evidence, "; ")
		if more := len(i.Evidence) - 1; more > 0 && format != "wide" {
			evidence = fmt.Sprintf("%s + %d more", i.Evidence[0], more)
		}
		name, verdict := i.Name, string(i.Verdict)
		for _, text := range []string{cmp.Or(evidence, "-"), strings.ReplaceAll(i.Detail, "\n", "; "), i.See} {
			for line := range strings.Lines(output.Wrap(text, "", textWidth)) {
				rows = append(rows, []string{name, verdict, strings.TrimSpace(line)})
				name, verdict = "", ""
			}
		}
	}
	return output.Print(w, rows)
}

// NewCommand returns kube-vmap preflight.
func NewCommand() *cobra.Command {
	var c Config
	var format string
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Check whether this node is ready for kube-vmap",
		Long: `Check a node before kube-vmap runs there: what the kernel supports, which proxy runs in
which mode, and which CNI plugin, policy engine, firewall, service mesh or load balancer
is there. Nothing is changed.

  fine       nothing has to be done; the detail may be worth reading
  partial    the same; another program serves part of the traffic to Services itself
  needs      the detail is what has to be done
  conflict   not on the same node as kube-vmap
  unknown    not visible: run it as root, on the node, or with hostNetwork and hostPID; or not
             certain: kube-vmap explain shows more

EVIDENCE is what was found, all of it with -o wide. Below it are the detail and the part of the
documentation, for components their row in docs/compatibility.md.

The exit code is 0 if everything is fine or partial, 1 if something is needed or conflicts, and 2 if
something could not be checked. deploy/preflight runs this on every node.`,
		Example: `  kube-vmap preflight
  kube-vmap preflight -o json --kubeconfig /etc/kubernetes/kubelet.conf`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := formats.Check(format); err != nil {
				return err
			}
			r := Run(cmd.Context(), c)
			return cmp.Or(r.Print(cmd.OutOrStdout(), format), r.exit())
		},
	}
	f := cmd.Flags()
	formats.AddFlag(cmd, &format)
	f.StringVar(&c.Kubeconfig, "kubeconfig", "",
		"`file` with the address of the API server, to check that this node reaches it")
	f.StringVar(&c.Node.CNIConfig, "cni-config", "/etc/cni/net.d", "`directory` with the configuration of CNI plugins")
	return exit.TroubleOnError(cmd)
}

func (r *Report) exit() error {
	switch r.Verdict {
	case programs.Fine, programs.Partial:
		return nil
	case Unknown:
		return &exit.Error{Code: exit.Trouble}
	}
	return &exit.Error{Code: 1}
}
