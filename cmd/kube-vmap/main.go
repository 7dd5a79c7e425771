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
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/buildversion"
	"kube-vmap/cmd/inspect/bundle"
	"kube-vmap/cmd/inspect/diff"
	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/explain"
	"kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/inspect/preflight"
	"kube-vmap/cmd/inspect/problems"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/model"
)

// version is set by the linker, or by main from the build info.
var version = buildversion.Unknown

func main() {
	version = buildversion.Of(version)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0, or another one after a line on stderr that gives the reason.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills the process
	root := rootCommand(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" && !errors.Is(err, errLogged) {
		_, _ = fmt.Fprintln(stderr, "kube-vmap:", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return exit.Code(err)
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
