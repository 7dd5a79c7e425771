package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/kubectl-vmap/cluster"
)

// topInterval is the default interval: each query runs a command on every node.
const topInterval = 2 * time.Second

func topCommand(f *cluster.Flags) *cobra.Command {
	var flags top.Flags
	chosen := f.Nodes("the default is all")
	cmd := &cobra.Command{
		Use:   "top [-n NAMESPACE] [--node NODE] [--sort COLUMN] [-w]",
		Short: "Print connection counts of Services, added up over all nodes",
		Long: `Print new connections per second and active connections of each Service, added up over
all nodes or those of --node: once, over one interval, or with -w again after each. Frontends
and endpoints of one Service are shown by kubectl vmap get.

A connection is counted on the node that translates it: that of the client, or the one
that a client outside connects to. Each query runs a command on every node, so the pause
before the next one is at least as long as it took. Nodes that do not answer are named on
stderr, and their connections are missing; with -w they are asked again after 30 s, or
immediately if no other node answers.

Problems and notices are numbers of Services; kubectl vmap problems lists them.`,
		Example: `  kubectl vmap top | head
  kubectl vmap top -n shop --sort active -w
  kubectl vmap top --node node-1 -o json | jq '.items[] | select(.rate > 100) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, _, err := chosen.Namespace()
			if err != nil {
				return err
			}
			s := topSource{chosen, map[string]failure{}}
			return top.Run(cmd.Context(), flags.Config(s.query, namespace))
		},
	}
	cmd.DisableFlagsInUseLine = true
	flags.AddTo(cmd, topInterval)
	chosen.AddFlags(cmd)
	return cmd
}

// retryPeriod is how long a node that did not answer is left alone, since others wait for it.
const retryPeriod = 30 * time.Second

// A topSource asks the chosen nodes, which are listed again each time, since nodes come and go.
type topSource struct {
	chosen  nodes.Nodes
	failing map[string]failure // by node
}

// A failure is why a node did not answer, and when.
type failure struct {
	pod string // another pod is another process, of which nothing is known
	err error
	at  time.Time
}

// query is a [top.Source]. It is an error if no node answers.
func (s *topSource) query(ctx context.Context, q nodestatus.Query) (out top.Answer, err error) {
	list, err := s.chosen.Find(ctx)
	if err != nil {
		return out, err
	}
	ask, absent, failed := s.split(list.Nodes)
	list.Nodes = ask
	nodes.ReadyFirst(list.Nodes)
	nodes.Each(ctx, list, func(ctx context.Context, n nodes.Node) (*nodestatus.Document, error) {
		return s.chosen.Document(ctx, n, q)
	}, func(n nodes.Node, d *nodestatus.Document, err error) {
		delete(s.failing, n.Name)
		if err != nil {
			f := failure{n.Pod, fmt.Errorf("%s: %w", n.Name, err), time.Now()}
			failed = append(failed, f.err)
			if !n.Missing && ctx.Err() == nil { // which costs nothing to ask, or was not asked to the end
				s.failing[n.Name] = f
			}
			return
		}
		d.Node = n.Name
		out.Documents = append(out.Documents, d)
	})
	slices.SortFunc(failed, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	if len(out.Documents) == 0 && len(failed) > 0 {
		return out, fmt.Errorf("no node answers; the first of %d errors is %w", len(failed), failed[0])
	} else if len(out.Documents) == 0 {
		return out, errors.New("no node of the cluster has kube-vmap")
	}
	slices.SortFunc(out.Documents, func(x, y *nodestatus.Document) int { return cmp.Compare(x.Node, y.Node) })
	if text := nodes.AbsentText(absent); text != "" {
		out.Failed = append(out.Failed, text)
	}
	for _, err := range failed {
		out.Failed = append(out.Failed, err.Error())
	}
	return out, nil
}

// split returns the nodes to ask, the names of those without kube-vmap, and the errors of those
// that rest, unless there are no others.
func (s *topSource) split(list []nodes.Node) (ask []nodes.Node, absent []string, failed []error) {
	rests := func(n nodes.Node) bool {
		f := s.failing[n.Name]
		return f.pod == n.Pod && time.Since(f.at) < retryPeriod
	}
	others := slices.ContainsFunc(list, func(n nodes.Node) bool { return !n.Missing && !rests(n) }) // which would wait
	for _, n := range list {
		switch {
		case n.Absent: // in one line, which leaves room for the others
			absent = append(absent, n.Name)
		case others && rests(n):
			failed = append(failed, s.failing[n.Name].err)
		default:
			ask = append(ask, n)
		}
	}
	return ask, absent, failed
}
