// Package status prints how the running proxy does its work (kube-vmap status). Its exit
// code is for scripts: 0 without problems, 1 with some, and 2 if that is not known.
package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/inspect/output"
)

// Options are what status is asked for.
type Options struct {
	Query  nodestatus.Query
	Output string // empty for text, or json, yaml
	// Tally prints a tally instead of a document.
	Tally  bool
	Socket string
	// Returned returns when and why the node was returned to kube-proxy; empty if it was
	// not.
	Returned func() (string, error)
}

// NewCommand returns kube-vmap status. For returned see [Options].
func NewCommand(returned func() (string, error)) *cobra.Command {
	o := Options{Returned: returned}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the running kube-vmap does its work on this node",
		Long: `Show how the running kube-vmap does its work on this node: what is wrong with it,
how far it has followed the API server, when changes last reached the kernel, what is
refused, repairs of tables that another program changed, who owns the tables, warnings
in the log, and how far it has taken the place of kube-proxy.

Problems are what keeps changes from reaching the kernel, or packets from the rules;
notices are worth a look. What is wrong with single Services is no problem of the node:
kube-vmap problems lists it.

With -o json or yaml, print the status document: the Services, and all of this in its field
health.

The exit code is 0 if there are no problems, 1 if there are some, and 2 if that is not
known. With -o json or yaml it is 0 if there is an answer.`,
		Example: `  kube-vmap status
  kube-vmap status -o json --health | jq .health.positions
  kube-vmap status -o json -n shop --name web`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	exit.TroubleOnUsage(cmd)
	f := cmd.Flags()
	output.Objects.AddFlag(cmd, &o.Output)
	f.BoolVar(&o.Query.Health, "health", false, "with -o json or yaml, print no Services")
	f.DurationVar(&o.Query.Observe, "observe", 0, "with -o json or yaml, how long to observe how endpoints respond")
	f.StringVarP(&o.Query.Namespace, "namespace", "n", "", "with -o json or yaml, only the Services of that `namespace`")
	f.StringVar(&o.Query.Name, "name", "", "with -o json or yaml, only the Services of that `name`")
	f.BoolVar(&o.Query.Brief, "brief", false, "with -o json or yaml, count endpoints instead of listing them")
	f.BoolVar(&o.Tally, "tally", false,
		"with -o json or yaml, print only connections and states, of Services that have any or are not OK")
	client.AddSocketFlag(f, &o.Socket)
	return cmd
}

// Run prints the status.
func (o Options) Run(ctx context.Context, w io.Writer) error {
	if err := cmp.Or(output.Objects.Check(o.Output), nodestatus.CheckObserve(o.Query.Observe),
		nodestatus.CheckNamespace(o.Query.Namespace), nodestatus.CheckNames([]string{o.Query.Name})); err != nil {
		return exit.TroubleError(err)
	}
	if o.Output == "" {
		o.Query = nodestatus.Query{Health: true}
	}
	o.Query.Brief = o.Query.Brief || o.Tally
	d, err := client.Client{Socket: o.Socket}.Get(ctx, o.Query)
	if err != nil {
		return exit.TroubleError(o.explain(err))
	}
	switch {
	case o.Output == "yaml" && o.Tally:
		return output.Write(w, o.Output, d.Tally())
	case o.Output == "yaml":
		return output.Write(w, o.Output, d)
	case o.Output == "json" && o.Tally:
		return json.NewEncoder(w).Encode(d.Tally())
	case o.Output == "json":
		return d.Write(w)
	}
	if d.Health == nil {
		return exit.TroubleError(fmt.Errorf("the running kube-vmap %s does not report its health",
			d.Version))
	}
	all := findings.OfNode(d)
	problems := slices.ContainsFunc(all, func(f findings.Finding) bool { return f.IsProblem() })
	if err := write(w, d, all, problems); err != nil {
		return err
	}
	if problems {
		return &exit.Error{Code: 1}
	}
	return nil
}

// explain adds to the error that no process answers why there may be none.
func (o Options) explain(err error) error {
	if o.Returned == nil || !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	text, e := o.Returned()
	if e != nil || text == "" {
		return err // which is worth more than that the state cannot be read
	}
	return fmt.Errorf("%w; this node was returned to kube-proxy at %s", err, text)
}

// write writes the health of a document as text, with what was found.
func write(w io.Writer, d *nodestatus.Document, all []findings.Finding, problems bool) error {
	verdict := "healthy"
	switch {
	case problems:
		verdict = "with problems"
	case len(all) > 0:
		verdict = "healthy, with notices"
	}
	if _, err := fmt.Fprintf(w, "%s: kube-vmap %s, %s\n", d.Node, d.Version, verdict); err != nil {
		return err
	}
	var lines [][]string
	said := map[string]bool{}
	for i := range all {
		said[all[i].Reason] = true
		lines = append(lines, []string{"  " + strings.ToUpper(all[i].Severity), all[i].Sentence()})
	}
	return output.Print(w, append(lines, rows(d, said)...))
}

// rows returns what is to know in any case, without what a finding has said already.
func rows(d *nodestatus.Document, said map[string]bool) (out [][]string) {
	h := d.Health
	add := func(title, text string, causes ...string) {
		if !slices.ContainsFunc(causes, func(reason string) bool { return said[reason] }) {
			out = append(out, []string{"  " + title, text})
		}
	}
	add("running", "since "+at(d, h.Started))
	add("objects", objects(h))
	add("last sync", cmp.Or(at(d, h.Sync.Last), "none"))
	add("refused", refused(&h.Refused), findings.PortsRefused, findings.Unusable, findings.Conflicts)
	add("repairs", count(d, h.Repairs), findings.Repaired)
	add("tables", tables(h))
	if n := h.Network; n != nil {
		add("tracking", fmt.Sprintf("%d of %d connections", n.Tracked, n.TrackedMax), nodestatus.ReasonTracking)
		add("forwards", n.Forwarding, nodestatus.ReasonForwarding)
	}
	add("warnings", count(d, h.Warnings), findings.Logged)
	add("take-over", strings.TrimSuffix(h.Takeover.State+": "+h.Takeover.Text, ": "))
	if h.FastPath != nil {
		add("fast path", fastPath(h.FastPath), findings.FastPathOff)
	}
	return out
}

func refused(r *nodestatus.Refused) string {
	if *r == (nodestatus.Refused{}) {
		return "nothing"
	}
	return fmt.Sprintf("%d Service ports by the kernel, %d objects unusable, "+
		"%d addresses and ports held by other Services",
		r.Ports, r.Objects, r.Conflicts)
}

func fastPath(f *nodestatus.FastPath) string {
	if !f.On {
		return strings.TrimSuffix("off: "+f.Reason, ": ")
	}
	return fmt.Sprintf("on for TCP and UDP to Services, after %d packets of a connection; %s",
		f.AfterPackets, nodestatus.Plural(f.Interfaces, "interface"))
}

func objects(h *nodestatus.Health) string {
	var newest []string
	for _, p := range h.Positions {
		newest = append(newest, p.Kind+" "+cmp.Or(p.ResourceVersion, "none"))
	}
	if len(newest) == 0 {
		return h.Source
	}
	return h.Source + "; newest resource versions: " + strings.Join(newest, ", ")
}

func tables(h *nodestatus.Health) string {
	var out []string
	for _, t := range h.Tables {
		out = append(out, t.Family+" "+strings.ToLower(t.State))
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

func count(d *nodestatus.Document, c nodestatus.Count) string {
	if c.Count == 0 {
		return "none since the start"
	}
	return fmt.Sprintf("%d since the start, last %s", c.Count, at(d, c.Last))
}

// at returns a time and how long before the document that was; empty for the zero time.
func at(d *nodestatus.Document, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339) + " (" + nodestatus.Duration(d.Time.Sub(t)) + " ago)"
}
