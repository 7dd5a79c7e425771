package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/kubectl-vmap/cluster"
)

func statusCommand(f *cluster.Flags) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how kube-vmap does its work on the nodes, problems first",
		Long: `Show how kube-vmap does its work on the nodes, one line for each, problems first. What
is wrong with single Services is shown by kubectl vmap problems.

  READY      the first state was programmed, and the pod is ready
  LAG        Services and EndpointSlices that are newer than what the node has seen
  REFUSED    Service ports that the kernel refuses, objects that cannot be used, and
             addresses and ports that another Service holds
  REPAIRS    of tables that another program changed, since kube-vmap started
  OWNED      IP families of the tables that no other program can change
  WARNINGS   and errors in the log, since kube-vmap started
  STATUS     the worst that there is to know, in words

A node that is behind when it is first asked is asked once more, 2 seconds later.
Deleted objects do not count as LAG. A node that does not answer costs --node-timeout.

The exit code is 0 if there are no problems, 1 if there are some, and 2 if not all nodes
could be asked, or not the API server. Notices are no problems.`,
		Example: `  kubectl vmap status
  kubectl vmap status -o wide --node node-1,node-2
  kubectl vmap status -o json | jq '.items[] | select(.lag.services > 0) | .node'`,
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return output.Table.Check(format) },
	}
	output.Table.AddFlag(cmd, &format)
	r := f.Nodes("all if there is none")
	r.AddFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := r.Find(cmd.Context())
		if err != nil {
			return err
		}
		api, apiErr := readVersions(cmd.Context(), r.REST()) // before the nodes are asked
		if apiErr != nil {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "LAG is not known:", apiErr)
		}
		rows := askStatus(cmd.Context(), r, list, api)
		if err := writeStatus(cmd.OutOrStdout(), format, rows); err != nil {
			return err
		}
		switch sum := summarize(rows); {
		case sum.Unknown > 0 || apiErr != nil:
			return &exit.Error{Code: exit.Trouble}
		case sum.Problems > 0:
			return &exit.Error{Code: 1}
		}
		return nil
	}
	return exit.TroubleOnError(cmd)
}

// settle is how long a node may take to see a change before it counts as behind.
const settle = 2 * time.Second

// askStatus returns the rows of the nodes. Those that are behind are asked twice.
func askStatus(ctx context.Context, r nodes.Nodes, all nodes.List, api objectVersions) []nodeRow {
	rows := make(map[string]nodeRow, len(all.Nodes))
	ask := func(list nodes.List) {
		nodes.Each(ctx, list, func(ctx context.Context, n nodes.Node) (*nodestatus.Document, error) {
			return r.Document(ctx, n, nodestatus.Query{Health: true})
		}, func(n nodes.Node, d *nodestatus.Document, err error) { rows[n.Name] = newRow(n, d, err, api) })
	}
	start := time.Now()
	ask(all)
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
		ask(behind)
	}
	out := slices.Collect(maps.Values(rows))
	sortRows(out)
	return out
}

// nodeSummary counts the nodes.
type nodeSummary struct {
	Nodes    int `json:"nodes"`
	Unknown  int `json:"unknown"`
	Problems int `json:"problems"`
	Notices  int `json:"notices"`
	// Absent have no pod of kube-vmap, as before they are moved, and are no problem.
	Absent int `json:"absent"`
	// Versions counts the nodes by the version of kube-vmap, where that is known.
	Versions map[string]int `json:"versions"`
}

func summarize(rows []nodeRow) nodeSummary {
	s := nodeSummary{Nodes: len(rows), Versions: map[string]int{}}
	by := map[string]int{}
	for i := range rows {
		by[rows[i].Severity]++
		if v := rows[i].Version; v != "" {
			s.Versions[v]++
		}
	}
	s.Absent, s.Unknown = by[severityAbsent], by[severityUnknown]
	s.Problems, s.Notices = by[nodestatus.SeverityProblem], by[nodestatus.SeverityNotice]
	return s
}

// String returns the summary in one line.
func (s nodeSummary) String() string {
	text := fmt.Sprintf("%s: %d not known, %d with problems, %d with notices",
		nodestatus.Plural(s.Nodes, "node"), s.Unknown, s.Problems, s.Notices)
	if len(s.Versions) > 1 {
		text += fmt.Sprintf("; %d versions of kube-vmap", len(s.Versions))
	}
	return text
}

// columns are those of the table before STATUS, the narrow ones first.
var columns = [...]string{
	"NODE", "VERSION", "READY", "LAG", "REFUSED", "REPAIRS", "OWNED", "WARNINGS",
	"RUNNING", "LAST-SYNC", "SERVICES-AT", "SLICES-AT", "TAKE-OVER",
}

// narrow is how many columns there are without -o wide.
const narrow = 8

// writeStatus writes rows in an output format.
func writeStatus(w io.Writer, format string, rows []nodeRow) error {
	if output.IsObject(format) {
		return output.WriteList(w, format, rows, summarize(rows))
	}
	wide := format == "wide"
	line := func(cells [len(columns)]string, last string) []string {
		if wide {
			return append(cells[:], last)
		}
		return append(cells[:narrow:narrow], last)
	}
	table := [][]string{line(columns, "STATUS")}
	var absent []string
	for i := range rows {
		if rows[i].Severity == severityAbsent {
			absent = append(absent, rows[i].Node)
			continue
		}
		table = append(table, line(rows[i].cells(), output.Clean(rows[i].text())))
	}
	if err := output.Print(w, table); err != nil {
		return err
	}
	if text := nodes.AbsentText(absent); text != "" {
		_, _ = fmt.Fprintln(w, text)
	}
	_, err := fmt.Fprintln(w, summarize(rows))
	return err
}

// cells returns the columns, with a dash for what is not known.
func (r *nodeRow) cells() (out [len(columns)]string) {
	out[0], out[1] = r.Node, r.Version
	if r.Ready != nil {
		out[2] = map[bool]string{true: "True", false: "False"}[*r.Ready]
	}
	if r.Lag != nil {
		out[3] = strconv.Itoa(r.Lag.sum())
	}
	if h := r.Health; h != nil {
		out[4], out[5] = strconv.Itoa(h.Refusals()), strconv.Itoa(h.Repairs.Count)
		out[6], out[7] = strings.Join(h.Owned(), ","), strconv.Itoa(h.Warnings.Count)
		out[8] = nodestatus.Duration(r.now.Sub(h.Started))
		if !h.Sync.Last.IsZero() {
			out[9] = nodestatus.Duration(r.now.Sub(h.Sync.Last))
		}
		out[10], _ = positionOf(h, "Service")
		out[11], _ = positionOf(h, "EndpointSlice")
		out[12] = h.Takeover.State
	}
	for i := range out {
		out[i] = cmp.Or(output.Clean(out[i]), "-")
	}
	return out
}
