// Package status prints how kube-vmap does its work: of one node what there is to know, of several a
// line each. Its exit code is for scripts: 0 without problems, 1 with some, and 2 if that is not
// known.
//
//	Nodes --Document--> Row of each node --> one node: verdict, findings, state
//	API server --Lag---^                 `-> several:  table, JSON, YAML
package status

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// LagReader returns what compares nodes with what the API server has now.
type LagReader func(ctx context.Context) (func(*nodestatus.Health) (*Lag, error), error)

// NewCommand returns the command for the nodes of a cluster.
func NewCommand(from nodes.Nodes, lag LagReader) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how kube-vmap does its work on the nodes, problems first",
		Long: `Show how kube-vmap does its work on the nodes, one line for each, problems first; with
--node NAME, what there is to know of that one. What is wrong with single Services is shown
by kubectl vmap problems. READY means that the first state was programmed, and the pod is
ready; STATUS is the worst that there is to know, in words.

` + fieldsHelp() + `
A node that is behind when it is first asked is asked once more, 2 seconds later.
Deleted objects do not count as LAG. A node that does not answer costs --node-timeout.

The exit code is 0 if there are no problems, 1 if there are some, and 2 if not all nodes
could be asked, or not the API server. Notices are no problems.`,
		Example: `  kubectl vmap status
  kubectl vmap status --node node-1
  kubectl vmap status -o json | jq '.items[] | select(.lag.services > 0) | .node'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, from, format, lag) },
	}
	output.Table.AddFlag(cmd, &format)
	from.AddFlags(cmd)
	return exit.TroubleOnError(cmd)
}

// run prints the rows of nodes. The error has the exit code.
func run(cmd *cobra.Command, from nodes.Nodes, format string, lag LagReader) error {
	if err := output.Table.Check(format); err != nil {
		return err
	}
	list, err := from.Find(cmd.Context())
	if err != nil {
		return err
	}
	var lagOf func(*nodestatus.Health) (*Lag, error)
	if lag != nil {
		if lagOf, err = lag(cmd.Context()); err != nil { // before the nodes are read
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "LAG is not known:", err)
		}
	}
	rows := read(cmd.Context(), from, list, lagOf)
	one := len(rows) == 1 && list.Chosen && format == ""
	switch sum := summarize(rows); {
	case one && rows[0].err != nil && list.Nodes[0].Name == "": // this one
		return rows[0].err
	case sum.Unknown > 0 || err != nil:
		err = &exit.Error{Code: exit.Trouble}
	case sum.Problems > 0:
		err = &exit.Error{Code: 1}
	}
	if one && rows[0].Health != nil {
		return cmp.Or(rows[0].write(cmd.OutOrStdout()), err)
	}
	return cmp.Or(writeTable(cmd.OutOrStdout(), format, rows), err)
}

// NewNodeCommand returns the command for this node. explain adds to the error that no process answers
// why there may be none.
func NewNodeCommand(from nodes.Nodes, explain func(error) error) *cobra.Command {
	var q nodestatus.Query
	var format string
	var tally bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the running kube-vmap does its work on this node",
		Long: `Show how the running kube-vmap does its work on this node: problems, which keep changes
from reaching the kernel or packets from the rules; notices, which are worth a look; and
the state. What is wrong with single Services is no problem of the node: kube-vmap
problems lists it.

` + fieldsHelp() + `
With -o json or yaml, print the status document: the Services, and all of this in its field
health.

The exit code is 0 if there are no problems, 1 if there are some, and 2 if that is not
known. With -o json or yaml it is 0 if there is an answer.`,
		Example: `  kube-vmap status
  kube-vmap status -o json --health | jq .health.positions
  kube-vmap status -o json -n shop --name web`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if q.Namespace, _, err = from.Namespace(); err != nil {
				return err
			}
			if err := cmp.Or(output.Objects.Check(format), nodestatus.CheckObserve(q.Observe),
				nodestatus.CheckNamespace(q.Namespace), nodestatus.CheckNames([]string{q.Name})); err != nil {
				return err
			}
			if format == "" {
				return explain(run(cmd, from, "", nil))
			}
			q.Brief = q.Brief || tally
			d, err := from.Document(cmd.Context(), nodes.Node{}, q)
			if err != nil {
				return explain(err)
			}
			return writeDocument(cmd.OutOrStdout(), format, d, tally)
		},
	}
	f := cmd.Flags()
	output.Objects.AddFlag(cmd, &format)
	f.BoolVar(&q.Health, "health", false, "with -o json or yaml, print no Services")
	f.DurationVar(&q.Observe, "observe", 0, "with -o json or yaml, how long to observe how endpoints respond")
	f.StringVar(&q.Name, "name", "", "with -o json or yaml, only the Services of that `name`")
	f.BoolVar(&q.Brief, "brief", false, "with -o json or yaml, count endpoints instead of listing them")
	f.BoolVar(&tally, "tally", false,
		"with -o json or yaml, print only connections and states, of Services that have any or are not OK")
	from.AddFlags(cmd)
	return exit.TroubleOnError(cmd)
}

// writeDocument writes a document or its tally. JSON is for programs: it is one line.
func writeDocument(w io.Writer, format string, d *nodestatus.Document, tally bool) error {
	var value any = d
	if tally {
		value = d.Tally()
	}
	if format == "yaml" {
		return output.Write(w, format, value)
	}
	return output.WriteLine(w, value)
}

// settle is how long a node may take to see a change before it counts as behind.
const settle = 2 * time.Second

// read returns the rows of the nodes. Those that are behind are read twice.
func read(
	ctx context.Context, from nodes.Nodes, all nodes.List, lag func(*nodestatus.Health) (*Lag, error),
) []Row {
	rows := make(map[string]Row, len(all.Nodes))
	readAll := func(list nodes.List) {
		nodes.Each(ctx, list, func(ctx context.Context, n nodes.Node) (*nodestatus.Document, error) {
			return from.Document(ctx, n, nodestatus.Query{Health: true})
		}, func(n nodes.Node, d *nodestatus.Document, err error) { rows[n.Name] = NewRow(n, d, err, lag) })
	}
	start := time.Now()
	readAll(all)
	behind := all
	behind.Nodes = slices.DeleteFunc(slices.Clone(all.Nodes), func(n nodes.Node) bool {
		lag := rows[n.Name].Lag
		return lag == nil || lag.sum() == 0
	})
	if len(behind.Nodes) > 0 {
		select {
		case <-time.After(settle - time.Since(start)):
		case <-ctx.Done():
		}
		readAll(behind)
	}
	out := slices.Collect(maps.Values(rows))
	sortRows(out)
	return out
}
