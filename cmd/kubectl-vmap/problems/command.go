// Package problems is kubectl vmap problems: what kube-vmap problems finds on the nodes, one
// line for each object, reason and field, with the nodes concerned.
package problems

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/kubectl-vmap/nodes"
	"kube-vmap/cmd/kubectl-vmap/resolve"
)

// request is what the command is asked for.
type request struct {
	cluster        *nodes.Cluster
	selection      nodes.Selection
	namespace      string   // empty for all
	names          []string // of Services; none for all
	observe        time.Duration
	format         string
	stdout, stderr io.Writer
}

// NewCommand returns kubectl vmap problems.
func NewCommand(f *nodes.Flags) *cobra.Command {
	var r request
	var all bool
	cmd := &cobra.Command{
		Use:   "problems [SERVICE...]",
		Short: "List everything that is not plainly balanced on the nodes, problems first",
		Long: `List the Services whose connections are not balanced over all ready endpoints, or fail,
on any node: one line for each Service, reason and field that causes it, with the nodes
where it is so. Problems come before notices, which may be intended. A Service that is
not listed sends each new connection to any of its ready endpoints, whoever the client
is. Problems of other objects and of nodes are listed, too. The reasons:

` + findings.ReasonsHelp() + `
All namespaces are listed, or that of -n. A SERVICE is one of the namespace of -n or of
the kubeconfig, unless -A is given. Whether endpoints respond is observed for a moment
(--observe), without sending anything: let clients try meanwhile.

Nodes that do not answer are named on stderr. The exit code is 0 if there are no
problems, 1 if there are some, and 2 if not all nodes could be asked.`,
		Example: `  kubectl vmap problems
  kubectl vmap problems -n shop web -o wide
  kubectl vmap problems --node node-1 --observe 8s`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			r.names, r.stdout, r.stderr = args, cmd.OutOrStdout(), cmd.ErrOrStderr()
			if r.namespace, err = namespace(f, all, len(args) > 0 || cmd.Flags().Changed("namespace")); err == nil {
				r.cluster, err = f.Cluster(r.stderr)
			}
			if err == nil {
				err = r.check()
			}
			if err != nil {
				return &exit.Error{Code: exit.Trouble, Err: err}
			}
			return r.run(cmd.Context())
		},
	}
	exit.TroubleOnUsage(cmd)
	flags := cmd.Flags()
	r.selection.AddFlags(flags, "all if there is none")
	flags.BoolVarP(&all, "all-namespaces", "A", false, "list all namespaces")
	output.Table.AddFlag(cmd, &r.format)
	flags.DurationVar(&r.observe, "observe", 3*time.Second,
		"how long to observe whether endpoints respond, at most 10s; 0 means not at all")
	return cmd
}

// namespace returns the namespace of the flags or the kubeconfig if one is wanted.
func namespace(f *nodes.Flags, all, wanted bool) (string, error) {
	if all || !wanted {
		return "", nil
	}
	return f.CurrentNamespace()
}

func (r *request) check() error {
	if r.observe < 0 {
		return fmt.Errorf("--observe: %s is less than 0", r.observe)
	}
	return output.Table.Check(r.format)
}

// run asks the nodes and prints what they have found.
func (r *request) run(ctx context.Context) error {
	list, err := r.selection.Select(ctx, r.cluster)
	if err != nil {
		return &exit.Error{Code: exit.Trouble, Err: err}
	}
	var all findings.Merger
	services := 0
	var unobserved []string
	var failures nodes.Failures
	nodes.Ask(ctx, r.cluster, list, r.ask, func(n nodes.Node, l *findings.List, err error) {
		if failures.Add(n, err); err == nil {
			all.Add(n.Name, l.Findings)
			services = max(services, l.Services)
			for _, what := range l.NotObserved {
				if !slices.Contains(unobserved, what) {
					unobserved = append(unobserved, what)
				}
			}
		}
	})
	failed := failures.Err(r.stderr)
	if failures.Answered() == 0 {
		return &exit.Error{Code: exit.Trouble, Err: failed}
	}
	found, answered := all.Sorted(), all.Nodes()
	for i := range found {
		compareNodes(&found[i], len(answered))
	}
	if err := r.addPods(ctx, found); err != nil {
		_, _ = fmt.Fprintln(r.stderr, err)
	}
	sum := summarize(found)
	sum.Nodes, sum.Silent, sum.Services, sum.NotObserved = failures.Answered()+failures.Count(), failures.Count(),
		services, unobserved
	err = write(r.stdout, r.format, found, sum, answered)
	switch {
	case err != nil:
		return err
	case failed != nil:
		return &exit.Error{Code: exit.Trouble, Err: failed}
	case sum.Problems > 0:
		return &exit.Error{Code: 1}
	}
	return nil
}

// compareNodes corrects a finding about the selector of a Service if only some of the nodes that
// answered have it: other nodes know endpoints, so the selector is not the cause.
func compareNodes(m *findings.Merged, answered int) {
	if m.Reason == findings.NoEndpoints && m.Field == findings.FieldSelector && len(m.Nodes) < answered {
		m.Field, m.Kind, m.Text, m.Variants = "", findings.KindBehind, "", nil
	}
}

// addPods adds to what nodes have found what only the API server knows.
func (r *request) addPods(ctx context.Context, list []findings.Merged) error {
	api, err := kubernetes.NewForConfig(r.cluster.REST())
	if err != nil {
		return fmt.Errorf("configure the client: %w", err)
	}
	return namer{&resolve.Resolver{API: api}}.add(ctx, list)
}

// ask asks one node.
func (r *request) ask(ctx context.Context, n nodes.Node) (*findings.List, error) {
	args := []string{"problems", "-o", "json", "--observe", r.observe.String()}
	if r.namespace != "" {
		args = append(args, "--namespace", r.namespace)
	}
	l := &findings.List{}
	if err := r.cluster.Patient(r.observe).JSON(ctx, n, findings.Schema, l, append(args, r.names...)...); err != nil {
		return nil, err
	}
	return l, nil
}
