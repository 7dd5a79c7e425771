package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Flags are kubectl's flags for a cluster, and those for kube-vmap in it.
type Flags struct {
	*genericclioptions.ConfigFlags

	proxyNamespace string
	timeout        time.Duration
	concurrency    int
}

// NewFlags returns flags with kubectl's defaults.
func NewFlags() *Flags { return &Flags{ConfigFlags: genericclioptions.NewConfigFlags(true)} }

// AddFlags adds the flags.
func (f *Flags) AddFlags(to *pflag.FlagSet) {
	f.ConfigFlags.AddFlags(to)
	to.StringVar(&f.proxyNamespace, "proxy-namespace", DefaultNamespace, "`namespace` of kube-vmap's pods")
	to.DurationVar(&f.timeout, "node-timeout", defaultTimeout, "how long a node may be silent until it counts as not answering")
	to.IntVar(&f.concurrency, "node-concurrency", defaultConcurrency, "`number` of nodes to ask at a time")
}

// Cluster returns the cluster that the flags and the kubeconfig choose. Progress is shown
// on stderr if that is a terminal.
func (f *Flags) Cluster(stderr io.Writer) (*Cluster, error) {
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	c := Config{REST: config, Namespace: f.proxyNamespace, Timeout: f.timeout, Concurrency: f.concurrency}
	if file, ok := stderr.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		c.Progress = stderr
	}
	return New(c)
}

// CurrentNamespace returns the namespace of -n or of the kubeconfig's context.
func (f *Flags) CurrentNamespace() (string, error) {
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace: %w", err)
	}
	return namespace, nil
}

// Selection are the flags that choose nodes.
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
func (s *Selection) Select(ctx context.Context, c *Cluster) ([]Node, error) {
	if s.All && len(s.Names) > 0 {
		return nil, errors.New("--node and --all-nodes: give one of them")
	}
	if len(s.Names) == 0 {
		return c.Nodes(ctx)
	}
	out := make([]Node, len(s.Names))
	for i, name := range s.Names {
		n, err := c.Node(ctx, name)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}
