package page

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/kubectl-vmap/explain"
	"kube-vmap/cmd/kubectl-vmap/nodes"
	"kube-vmap/cmd/kubectl-vmap/page/live"
	"kube-vmap/model"
)

// NewCommand returns kubectl vmap page.
func NewCommand(f *nodes.Flags) *cobra.Command {
	var port int
	cmd := &cobra.Command{
		Use:   "page [--port PORT]",
		Short: "Serve a page with all nodes and Services on this machine",
		Long: `Serve a page for a browser on this machine: all nodes and Services with live rates of
connections, problems of all nodes, and the way of a packet across nodes. It prints the
URL, and ends with Ctrl-C.

Nodes are asked only while a browser shows the page, each at most every 5 seconds, and
less often in large clusters.

The page listens on 127.0.0.1. Its URL has a token, since other users of this machine
can connect to that address, too: whoever has the URL sees what you see.`,
		Example: `  kubectl vmap page
  kubectl vmap page --context prod --port 8001`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Cluster(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return Serve(cmd.Context(), Config{Cluster: live.New(c), Context: contextName(f), Explain: explainer(f, cmd)}, port, cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&port, "port", 0, "listen on this `port` of 127.0.0.1 instead of a free one")
	return cmd
}

// contextName returns the name of kubectl's context; empty if there is none.
func contextName(f *nodes.Flags) string {
	if f.Context != nil && *f.Context != "" {
		return *f.Context
	}
	config, err := f.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return config.CurrentContext
}

// explainer returns the function that follows packets. Each question begins with what the
// API server has now.
func explainer(f *nodes.Flags, cmd *cobra.Command) func(context.Context, Question) (any, error) {
	return func(ctx context.Context, q Question) (any, error) {
		e, err := explain.New(f, cmd)
		if err != nil {
			return nil, err
		}
		for _, family := range model.Families {
			if strings.EqualFold(family.String(), q.Family) {
				e.Families = []model.Family{family}
			}
		}
		return e.Explain(ctx, q.From, q.To)
	}
}
