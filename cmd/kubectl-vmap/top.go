package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// topInterval is the default interval: each query runs a command on every node.
const topInterval = 2 * time.Second

func topCommand(f *nodes.Flags) *cobra.Command {
	var flags top.Flags
	var chosen nodes.Selection
	cmd := &cobra.Command{
		Use:   "top [-n NAMESPACE] [--node NODE] [--sort COLUMN] [-w]",
		Short: "Print connection counts of Services, added up over all nodes",
		Long: `Print new connections per second and active connections of each Service, added up over
all nodes or those of --node: once, over one interval, or with -w again after each. Frontends
and endpoints of one Service are shown by kubectl vmap get.

A connection is counted on the node that translates it: that of the client, or the one
that a client outside connects to. Each query runs a command on every node, so the pause
before the next one is at least as long as it took. Nodes that do not answer are named on
stderr, and their connections are missing; with -w they are asked again after 4 s to 2 min.

Problems and notices are numbers of Services; kubectl vmap problems lists them.`,
		Example: `  kubectl vmap top | head
  kubectl vmap top -n shop --sort active -w
  kubectl vmap top --node node-1 -o json | jq '.items[] | select(.rate > 100) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Cluster(io.Discard) // it would report progress for each table
			if err != nil {
				return err
			}
			s := topSource{c, chosen, flags.Interval(), map[string]failure{}}
			return top.Run(cmd.Context(), flags.Config(s.query, f.GivenNamespace()))
		},
	}
	cmd.DisableFlagsInUseLine = true
	flags.AddTo(cmd, topInterval)
	chosen.AddFlags(cmd.Flags(), "the default is all")
	return cmd
}

// A topSource asks the chosen nodes, which are listed again each time, since nodes come and go.
// Those that do not answer are asked less and less, so that others seldom wait for them.
type topSource struct {
	cluster  *nodes.Cluster
	chosen   nodes.Selection
	interval time.Duration
	failing  map[string]failure // by node
}

// A failure is that of a node that does not answer.
type failure struct {
	pod   string // another pod is another process, of which nothing is known
	err   error
	since time.Time
	count int
	next  time.Time // when it is asked again
}

// query is a [top.Source]. It is an error if no node answers.
func (s *topSource) query(ctx context.Context, q nodestatus.Query) (out top.Answer, err error) {
	list, err := s.chosen.Select(ctx, s.cluster)
	if err != nil {
		return out, err
	}
	var failed []error
	list = slices.DeleteFunc(list, func(n nodes.Node) bool {
		f, failing := s.failing[n.Name]
		rests := failing && f.pod == n.Pod && time.Now().Before(f.next)
		if rests {
			failed = append(failed, f.describe(n))
		}
		return rests
	})
	nodes.Ask(ctx, s.cluster, list, func(ctx context.Context, n nodes.Node) (*nodestatus.Document, error) {
		return s.cluster.Document(ctx, n, q)
	}, func(n nodes.Node, d *nodestatus.Document, err error) {
		if err != nil {
			failed = append(failed, s.fail(n, err).describe(n))
			return
		}
		delete(s.failing, n.Name)
		d.Node = n.Name
		out.Documents = append(out.Documents, d)
	})
	slices.SortFunc(failed, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	if len(out.Documents) == 0 && len(failed) > 0 {
		return out, fmt.Errorf("no node answers; the first of %d errors is %w", len(failed), failed[0])
	} else if len(out.Documents) == 0 {
		return out, errors.New("the cluster has no nodes")
	}
	slices.SortFunc(out.Documents, func(x, y *nodestatus.Document) int { return cmp.Compare(x.Node, y.Node) })
	for _, err := range failed {
		out.Failed = append(out.Failed, err.Error())
	}
	return out, nil
}

// fail notes that a node did not answer. One without kube-vmap costs nothing to ask.
func (s *topSource) fail(n nodes.Node, err error) failure {
	now := time.Now()
	f := s.failing[n.Name]
	if f.count == 0 || f.pod != n.Pod {
		f = failure{pod: n.Pod, since: now}
	}
	f.count++
	f.err, f.next = err, now
	if !n.Missing {
		f.next = now.Add(nodes.Backoff(s.interval, f.count))
	}
	s.failing[n.Name] = f
	return f
}

// describe returns why a node does not answer, and since when.
func (f failure) describe(n nodes.Node) error {
	if age := time.Since(f.since).Round(time.Second); age > 0 {
		return fmt.Errorf("%s: not answering for %s: %w", n.Name, age, f.err)
	}
	return fmt.Errorf("%s: %w", n.Name, f.err)
}
