package nodes

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-vmap/cmd/inspect/exit"
)

// A Selection are the flags that choose nodes.
type Selection struct {
	Names []string
	All   bool
}

// AddFlags adds the flags --node and --all-nodes.
func (s *Selection) AddFlags(f *pflag.FlagSet, whenNone string) {
	f.StringSliceVar(&s.Names, "node", nil, "`names` of nodes to ask; "+whenNone)
	f.BoolVar(&s.All, "all-nodes", false, "ask all nodes")
}

// Select returns the selected nodes; all if neither flag was given.
func (s *Selection) Select(ctx context.Context, c *Cluster) (out []Node, err error) {
	if s.All && len(s.Names) > 0 {
		return nil, errors.New("--node and --all-nodes: give one of them")
	}
	if len(s.Names) == 0 {
		return c.Nodes(ctx)
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(s.Names))) { // one given twice would count twice
		n, err := c.Node(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// A Request is what a command is asked for: the nodes of its flags, and where it prints.
type Request struct {
	*Cluster
	Selection

	Args           []string
	List           []Node // the selected nodes
	Stdout, Stderr io.Writer
}

// Command makes run what a command does, and adds the flags that select nodes; whenNone
// describes which ones they are without them.
func (f *Flags) Command(cmd *cobra.Command, whenNone string, run func(context.Context, *Request) error) *cobra.Command {
	r := Request{}
	r.AddFlags(cmd.Flags(), whenNone)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.Args, r.Stdout, r.Stderr = args, cmd.OutOrStdout(), cmd.ErrOrStderr()
		if err := r.Find(cmd.Context(), f); err != nil {
			return err
		}
		return run(cmd.Context(), &r)
	}
	return cmd
}

// Find finds the cluster and the nodes of the flags.
func (r *Request) Find(ctx context.Context, f *Flags) (err error) {
	if r.Cluster, err = f.Cluster(); err == nil {
		r.List, err = r.Select(ctx, r.Cluster)
	}
	return err
}

// Trouble makes all errors of a command [exit.Trouble] that have no exit code of their own:
// for commands whose exit code 1 is an answer.
func Trouble(cmd *cobra.Command) *cobra.Command {
	exit.TroubleOnUsage(cmd)
	for _, step := range []*func(*cobra.Command, []string) error{&cmd.PreRunE, &cmd.RunE} {
		run := *step
		*step = func(cmd *cobra.Command, args []string) error {
			if run == nil {
				return nil
			}
			err := run(cmd, args)
			if coded := (*exit.Error)(nil); err != nil && !errors.As(err, &coded) {
				err = &exit.Error{Code: exit.Trouble, Err: err}
			}
			return err
		}
	}
	return cmd
}

// Answers asks the nodes of a request, and calls answered for each answer, one at a time; an
// error of it ends the command. Others are failures, for [Failures.Err].
func Answers[T any](
	ctx context.Context, r *Request, do func(context.Context, Node) (T, error), answered func(Node, T) error,
) (f Failures, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	Ask(ctx, r.Cluster, r.List, do, func(n Node, answer T, failure error) {
		if err != nil {
			return
		}
		if f.Add(n, failure); failure == nil {
			if err = answered(n, answer); err != nil {
				stop()
			}
		}
	})
	return f, err
}
