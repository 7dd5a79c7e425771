// Package problems is the command that lists Services whose traffic is not spread over all their ready
// endpoints. Package findings decides which these are.
//
//	this node: Document --> findings.List --> text or JSON
//	cluster:   findings.List of each node --merged, named--> text, JSON or YAML
package problems

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// Options are what problems is asked for.
type Options struct {
	Namespace string   // empty for all
	Names     []string // of Services; none for all
	Output    string   // empty for text, or json; of a cluster wide or yaml, too
	Observe   time.Duration
}

// A Cluster is where the nodes of a command are; nil means this node.
type Cluster interface {
	// Findings returns what a node has found.
	Findings(ctx context.Context, n nodes.Node, o Options) (findings.List, error)
	// Name adds to findings what only the API server knows. What nodes describe stays, if that fails.
	Name(ctx context.Context, list []findings.Merged) error
}

// defaultObserve is long enough for clients that try again each second.
const defaultObserve = 3 * time.Second

// NewCommand returns the command.
func NewCommand(from nodes.Nodes, program string, c Cluster) *cobra.Command {
	var o Options
	var all bool
	formats := output.Table
	if c == nil {
		formats = output.JSON
	}
	cmd := &cobra.Command{
		Use:   "problems [SERVICE...]",
		Short: "List Services whose traffic is not spread over all ready endpoints, and why",
		Long: `List the Services whose connections are not balanced over all ready endpoints, or fail,
each with the reason and the Kubernetes field that causes it: kube-vmap problems on this
node, kubectl vmap problems on any node, with the nodes where it is so. Problems come
before notices, which may be intended. A Service that is not listed sends each new
connection to any of its ready endpoints, whoever the client is. Problems of other objects
and of nodes are listed, too. The reasons:

` + nodestatus.ReasonsHelp() + `
All namespaces are listed, or the one of -n. In a cluster, a SERVICE is one of the namespace of
-n or of the kubeconfig, unless -A is given. Whether endpoints respond is observed for a
moment (--observe), without sending anything: let clients try meanwhile. Resets are found
only if connections are counted. See docs/usage.md for what the evidence is.

The exit code is 0 if there are no problems, 1 if there are some, and 2 if that is not
known: a node does not answer, or has not programmed everything yet, or connections are not
counted (NotCounted).`,
		Example: strings.ReplaceAll(`  PROGRAM problems
  PROGRAM problems -n shop web --observe 10s
  PROGRAM problems -o json`, "PROGRAM", program),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			given, current, err := from.Namespace()
			o.Names, o.Namespace = args, given
			if err := cmp.Or(err, formats.Check(o.Output), nodestatus.CheckObserve(o.Observe),
				nodestatus.CheckNamespace(given), nodestatus.CheckNames(args)); err != nil {
				return err
			}
			switch {
			case all:
				o.Namespace = ""
			case c != nil && len(args) > 0:
				o.Namespace = current
			}
			list, err := from.Find(cmd.Context())
			if err != nil {
				return err
			}
			if o.Observe > 0 {
				output.Progress(cmd.ErrOrStderr(), fmt.Sprintf("observing for %s whether endpoints respond ...", o.Observe))
			}
			if c == nil {
				return o.run(cmd.Context(), from, cmd.OutOrStdout())
			}
			return o.merge(cmd.Context(), c, list, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&all, "all-namespaces", "A", false, "list all namespaces")
	formats.AddFlag(cmd, &o.Output)
	f.DurationVar(&o.Observe, "observe", defaultObserve,
		"how long to observe whether endpoints respond, at most 10s; 0 means not at all")
	from.AddFlags(cmd)
	return exit.TroubleOnError(cmd)
}

// run prints the findings of this node. The error has the exit code of the command.
func (o Options) run(ctx context.Context, from nodes.Nodes, w io.Writer) error {
	q := nodestatus.Query{Namespace: o.Namespace, Observe: o.Observe}
	if len(o.Names) == 1 {
		q.Name = o.Names[0]
	}
	d, err := from.Document(ctx, nodes.Node{}, q)
	if err != nil {
		return err
	}
	if o.Namespace != "" && len(d.Services) == 0 && d.Ready {
		return fmt.Errorf("kube-vmap serves no Service in namespace %s", o.Namespace)
	}
	l, err := o.list(d)
	if err != nil {
		return err
	}
	if err := o.print(w, &l); err != nil {
		return fmt.Errorf("print the problems: %w", err)
	}
	// If kube-proxy serves the node, kube-vmap will program nothing.
	returned := slices.ContainsFunc(d.Problems, func(p nodestatus.Problem) bool {
		return p.Reason == nodestatus.ReasonReturned
	})
	switch {
	case !d.Ready && !returned:
		return errors.New("kube-vmap has not programmed everything yet")
	case l.NotCounted():
		return findings.ErrNotCounted
	case l.Problems():
		return &exit.Error{Code: 1}
	}
	return nil
}

func (o Options) list(d *nodestatus.Document) (findings.List, error) {
	if len(o.Names) == 0 {
		return findings.ListOf(d), nil
	}
	where := strings.TrimSuffix(" in namespace "+o.Namespace, " in namespace ")
	for _, name := range o.Names {
		if !slices.ContainsFunc(d.Services, func(s nodestatus.Service) bool { return s.Name == name }) {
			return findings.List{}, fmt.Errorf("kube-vmap serves no Service %s%s", name, where)
		}
	}
	d.Services = slices.DeleteFunc(d.Services, func(s nodestatus.Service) bool {
		return !slices.Contains(o.Names, s.Name)
	})
	l := findings.ListOf(d)
	l.Findings = slices.DeleteFunc(l.Findings, func(f findings.Finding) bool {
		return f.Name == "" && !strings.HasPrefix(f.Object, "Node ")
	})
	return l, nil
}

func (o Options) print(w io.Writer, l *findings.List) error {
	if o.Output == "" {
		return l.Write(w)
	}
	l.Findings = findings.WithTexts(l.Findings)
	return output.Write(w, o.Output, l)
}

func (o Options) merge(ctx context.Context, c Cluster, from nodes.List, stdout, stderr io.Writer) error {
	var all findings.Merger
	var sum findings.Summary
	var uncounted error
	failures, _ := nodes.Answers(ctx, from, func(ctx context.Context, n nodes.Node) (findings.List, error) {
		return c.Findings(ctx, n, o)
	}, func(n nodes.Node, l findings.List) error {
		all.Add(n.Name, l.Findings)
		sum.Services, sum.ObservedSeconds = max(sum.Services, l.Services), max(sum.ObservedSeconds, l.ObservedSeconds)
		if l.NotCounted() {
			uncounted = findings.ErrNotCounted
		}
		for _, what := range l.NotObserved {
			if !slices.Contains(sum.NotObserved, what) {
				sum.NotObserved = append(sum.NotObserved, what)
			}
		}
		return nil
	})
	failed := failures.Err(stderr)
	if failures.Answered() == 0 {
		return failed
	}
	found, answered := all.Sorted(), all.Nodes()
	for i := range found {
		compareNodes(&found[i], len(answered))
	}
	if err := c.Name(ctx, found); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
	}
	sum.Count(found)
	sum.Nodes, sum.Silent = failures.Answered()+failures.Count(), failures.Count()
	err := errors.Join(writeMerged(stdout, o.Output, found, sum, answered), failed, uncounted)
	if err == nil && sum.Problems > 0 {
		return &exit.Error{Code: 1}
	}
	return err
}

// compareNodes corrects a finding about the selector of a Service if only some of the nodes that
// answered have it: other nodes know endpoints, so the selector is not the cause.
func compareNodes(m *findings.Merged, answered int) {
	if m.Reason == nodestatus.ReasonNoEndpoints && m.Field == nodestatus.FieldSelector && len(m.Nodes) < answered {
		m.Field, m.Kind, m.Text, m.Variants = "", nodestatus.KindBehind, "", nil
	}
}

// writeMerged writes problems in an output format. answered are the nodes that answered.
func writeMerged(w io.Writer, format string, list []findings.Merged, s findings.Summary, answered []string) error {
	if !output.IsObject(format) {
		return findings.Print(w, list, s, answered, format == "wide")
	}
	for i := range list {
		list[i].SetTexts()
	}
	return output.WriteList(w, format, list, s)
}
