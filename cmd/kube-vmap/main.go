// Command kube-vmap is a Kubernetes Service proxy for the node it runs on. It
// programs nftables over netlink and takes kube-proxy's place.
//
//	kube-vmap --config FILE            run as the node's proxy until SIGTERM
//	kube-vmap --manifests DIR          the same, with Services from a folder
//	kube-vmap get, explain             show what is programmed, and its traffic
//	kube-vmap render, diff             print the rule set, and how the kernel differs
//	kube-vmap preflight                check a node before it runs there
//	kube-vmap bundle                   collect diagnostics into an archive
//	kube-vmap cleanup                  remove the rule set
//
// This package only connects the others: run.go goes from flags to the configuration,
// to the parts of the proxy, and runs them; the commands here are mostly
// instruments in cmd/inspect.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/buildversion"
	"kube-vmap/cmd/inspect/bundle"
	"kube-vmap/cmd/inspect/diff"
	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/explain"
	"kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/inspect/preflight"
	"kube-vmap/cmd/inspect/problems"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/takeover"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
)

// version is set by the linker, or by main from the build info.
var version = buildversion.Unknown

func main() {
	version = buildversion.Of(version)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0, or another one after a line on stderr that gives the reason.
func run(args []string, stdout, stderr io.Writer) int {
	return exit.Run(rootCommand(stdout, stderr), args, func(err error) {
		_, _ = fmt.Fprintln(stderr, "kube-vmap:", strings.ReplaceAll(err.Error(), "\n", "; "))
	})
}

// rootCommand returns the proxy itself with its subcommands.
func rootCommand(stdout, stderr io.Writer) *cobra.Command {
	flags := config.NewFlags()
	root := &cobra.Command{
		Use:   "kube-vmap [--config FILE | FLAGS]",
		Short: "A Kubernetes Service proxy for nodes with nftables",
		Long: `kube-vmap runs as the Service proxy of the node it is started on, in place of
kube-proxy and with kube-proxy's flags and configuration file: it watches Services and
EndpointSlices and programs nftables accordingly, with one netlink transaction per
change. The rules stay when it ends; "kube-vmap cleanup" removes them.

Rules of kube-proxy that are on the node are suspended with the first change, and
removed after a probation.

If the probation fails, the node is returned to kube-proxy. Then kube-vmap stays, also when
it is started again, and reports that until "kube-vmap cleanup" allows another attempt.`,
		Example: `  kube-vmap --config /var/lib/kube-proxy/config.conf
  kube-vmap --kubeconfig FILE --cluster-cidr 10.244.0.0/16,fd00:10:244::/56 -v 2
  kube-vmap --manifests DIR --hostname-override node-1`,
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceErrors: true, // run prints them, in one line
		SilenceUsage:  true,
		// The name decides which socket and which tables all commands use.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.SetProxyName(cmd.Flags().Lookup("service-proxy-name").Value.String()); err != nil {
				return err
			}
			if socket := cmd.Flags().Lookup("status-socket"); socket != nil && !socket.Changed {
				return socket.Value.Set(model.Named(client.DefaultSocket))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runProxy(cmd.Context(), cmd, flags)
		},
	}
	flags.AddToCommand(root)
	root.PersistentFlags().AddFlag(root.Flags().Lookup("service-proxy-name"))
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.Flags().Bool("version", false, "print the version and exit")
	root.AddCommand(
		get.NewCommand(&proxyOrKernel{}, "kube-vmap", nil),
		status.NewNodeCommand(&client.ThisNode{}, explainNoProcess),
		problems.NewCommand(&client.ThisNode{}, "kube-vmap", nil), explain.NewCommand(),
		diff.NewRenderCommand(), diff.NewCommand(), bundle.NewCommand(),
		preflight.NewCommand(),
		cleanupCommand(), versionCommand(),
	)
	return root
}

func cleanupCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove the rule set from the kernel, like --cleanup",
		Long: `Remove the rule set from the kernel, and in the same transaction resume the rules of
kube-proxy that kube-vmap has suspended, if they are still there. After that kube-vmap
may take over again, also on a node that it has returned to kube-proxy.

Without rules of kube-proxy, Services would no longer work on this node. Then nothing
changes and the exit code is 4. The same applies if kube-proxy's rules do not reach the
endpoints of most of a sample of ClusterIPs, or of the API server's. --force removes the
rules anyway.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, _ := newLogger(&config.Config{}, cmd.ErrOrStderr(), &logRing{})
			return cleanup(cmd.Context(), log, force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove the rules also if nothing serves in their place")
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "kube-vmap", version)
			return err
		},
	}
}

// proxyOrKernel is this node, by what the running process knows or, without one, by the kernel's
// tables; it implements [nodes.Nodes].
type proxyOrKernel struct {
	client.ThisNode
	fromKernel bool
	stderr     func() io.Writer
}

// AddFlags adds the flags that choose what is read.
func (n *proxyOrKernel) AddFlags(cmd *cobra.Command) {
	n.ThisNode.AddFlags(cmd)
	n.stderr = cmd.ErrOrStderr
	cmd.Flags().BoolVar(&n.fromKernel, "kernel", false, "read the kernel's tables, even if kube-vmap runs")
}

// Document returns the document, and prints why it is from the kernel.
func (n *proxyOrKernel) Document(
	ctx context.Context, of nodes.Node, q nodestatus.Query,
) (*nodestatus.Document, error) {
	if n.fromKernel {
		return n.readKernel(ctx, q, "")
	}
	d, err := n.ThisNode.Document(ctx, of, q)
	switch {
	case errors.Is(err, client.ErrUnresponsive):
		return nil, fmt.Errorf("%w; --kernel reads the kernel's tables without it", err)
	case !errors.Is(err, client.ErrNotRunning):
		return d, err
	}
	// The advice is only for when the kernel has no tables either.
	why, _, _ := strings.Cut(err.Error(), ": does kube-vmap run?")
	d, kernelErr := n.readKernel(ctx, q, why+"; ")
	if kernelErr != nil {
		return nil, fmt.Errorf("%w; and in the kernel: %w", err, kernelErr)
	}
	return d, nil
}

// readKernel reads the kernel, and prints that.
func (n *proxyOrKernel) readKernel(
	ctx context.Context, q nodestatus.Query, why string,
) (*nodestatus.Document, error) {
	d, err := readKernel(ctx, q)
	if err == nil {
		_, _ = fmt.Fprintln(n.stderr(), why+"read from the kernel's tables, which have no EndpointSlices, and only the "+
			"programmed parts of Services")
	}
	return d, err
}

// explainNoProcess adds to the error that no process answers why there may be none.
func explainNoProcess(err error) error {
	if !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	text, e := takeover.Returned()
	if e != nil || text == "" {
		return err // which is worth more than that the state cannot be read
	}
	return fmt.Errorf("%w; this node was returned to kube-proxy at %s", err, text)
}

func readKernel(ctx context.Context, q nodestatus.Query) (d *nodestatus.Document, err error) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	tables, err := k.Read()
	if err != nil {
		return nil, err
	}
	if tables == (nft.Tables{}) {
		return nil, errors.New("this network namespace has no table of kube-vmap, so nothing is programmed in it")
	}
	d = build.FromTables(tables, q, time.Now())
	counts := build.Counts{Active: build.ActiveCounts(conntrack.New(conntrack.Config{}))}
	if tables.CountsConnections() {
		counts.Total = build.TotalCounts(k)
	}
	counts.AddTo(d)
	if q.Observe > 0 {
		list, err := build.ObserveNode(ctx, q.Observe)
		if err != nil {
			return nil, err
		}
		build.AddResponses(d, min(q.Observe, nodestatus.MaxObserved), list)
	}
	return d, nil
}
