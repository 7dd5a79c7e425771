package cluster

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodes"
)

// Nodes are the nodes of a cluster that a command reads; it implements [nodes.Nodes].
type Nodes struct {
	*Flags
	*Cluster // nil before Find

	whenNone string
	names    []string
	all      bool
}

// Nodes returns the nodes of the flags' cluster; whenNone describes which ones a command reads if the
// user chooses none.
func (f *Flags) Nodes(whenNone string) *Nodes { return &Nodes{Flags: f, whenNone: whenNone} }

// AddFlags adds the flags --node and --all-nodes.
func (s *Nodes) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&s.names, "node", nil, "`names` of nodes to ask; "+s.whenNone)
	cmd.Flags().BoolVar(&s.all, "all-nodes", false, "ask all nodes")
}

// Namespace returns the namespace of -n, and that or the one of the kubeconfig's context.
func (s *Nodes) Namespace() (given, current string, err error) {
	current, err = s.CurrentNamespace()
	return s.overrides.Context.Namespace, current, err
}

// Find returns the chosen nodes; all if neither flag was given.
func (s *Nodes) Find(ctx context.Context) (list nodes.List, err error) {
	if s.all && len(s.names) > 0 {
		return list, errors.New("--node and --all-nodes: give one of them")
	}
	if s.Cluster == nil {
		if s.Cluster, err = s.Flags.Cluster(); err != nil {
			return list, err
		}
	}
	list = nodes.List{Chosen: s.all || len(s.names) > 0, Limit: s.config.Concurrency}
	if len(s.names) == 0 {
		list.Nodes, err = s.Cluster.Nodes(ctx)
		return list, err
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(s.names))) { // one given twice would count twice
		n, err := s.Node(ctx, name)
		if err != nil {
			return list, err
		}
		list.Nodes = append(list.Nodes, n)
	}
	return list, nil
}
