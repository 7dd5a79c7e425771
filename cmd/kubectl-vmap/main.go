// Command kubectl-vmap is a plugin of kubectl, "kubectl vmap": it asks the nodes of a cluster
// what kube-vmap programs there, from the machine of a user. It needs the API server only.
//
//	flags --> resolve: names to objects, addresses, causes in pods
//	      --> nodes: finds kube-vmap's pods, asks them --> explain: their answers joined
//
// The other commands are files of this package: each describes what to ask and how to print it.
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"kube-vmap/cmd/inspect/buildversion"
	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/explain"
)

// version is set by the linker, or by main from the build info.
var version = buildversion.Unknown

func main() {
	version = buildversion.Of(version)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	return exit.Run(rootCommand(stdout, stderr), args, func(err error) { _, _ = fmt.Fprintln(stderr, "error:", err) })
}

func rootCommand(stdout, stderr io.Writer) *cobra.Command {
	flags := cluster.NewFlags()
	root := &cobra.Command{
		Use:   "vmap",
		Short: "Ask the nodes of a cluster what kube-vmap programs there",
		Long: `Ask the nodes of a cluster what kube-vmap, their Service proxy, programs there. The
answers come from the pods of kube-vmap, in which "/kube-vmap" runs as by kubectl exec, and
from the API server. Nothing is changed.

A Service does not answer, refuses, or only some of its pods get connections: problems.
One client or one node has trouble, others do not, or problems lists nothing: explain.
Nodes differ, or a change has no effect: status, and diff if the rules may be wrong.
To look at what is programmed, and its connections: get; at all of it: page.`,
		Example: `  kubectl vmap status                          does kube-vmap work on all nodes?
  kubectl vmap problems -n shop                which Services have problems, and why?
  kubectl vmap explain --from pod/shop/cart-7f9 --to svc/shop/web
                                               why does a packet not arrive?
  kubectl vmap get endpoints -n shop web       which endpoints get connections?
  kubectl vmap get svc -A --sort-by ACTIVE     who has the connections now?`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl vmap"},
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceErrors: true, // run prints them, in one line
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	// without -v, which is another flag of kubectl
	root.Flags().Bool("version", false, "print the version of this program")
	flags.AddFlags(root.PersistentFlags())
	root.CompletionOptions.DisableDefaultCmd = true // kubectl completes, see completion.go
	root.SetUsageTemplate(withoutGlobalFlags(root.UsageTemplate()))
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(
		explain.NewCommand(flags),
		statusCommand(flags),
		problemsCommand(flags),
		get.NewCommand(flags.Nodes("by default one that answers"), "kubectl vmap", labels(flags)),
		diffCommand(flags),
		bundleCommand(flags),
		pageCommand(flags),
		versionCommand(flags),
	)
	completer{flags}.register(root)
	return root
}

// withoutGlobalFlags returns a usage template that refers to the help of kubectl vmap for
// its flags, most of which are kubectl's, instead of repeating them for each command.
func withoutGlobalFlags(template string) string {
	before, rest, _ := strings.Cut(template, "\n\nGlobal Flags:\n{{.InheritedFlags")
	_, after, _ := strings.Cut(rest, "}}")
	return before + "\n\nUse \"kubectl vmap --help\" for the flags of the connection, which are kubectl's." + after
}

// labels returns the function that returns which Services have the labels of a selector, as the API
// server knows them.
func labels(f *cluster.Flags) get.Labels {
	return func(ctx context.Context, selector string) (func(namespace, name string) bool, error) {
		c, err := f.Cluster()
		if err != nil {
			return nil, err
		}
		api, err := metadata.NewForConfig(c.REST())
		if err != nil {
			return nil, fmt.Errorf("configure the client: %w", err)
		}
		services := api.Resource(corev1.SchemeGroupVersion.WithResource("services"))
		list, err := services.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("list services with the labels %s: %w", selector, err)
		}
		has := map[[2]string]bool{}
		for i := range list.Items {
			has[[2]string{list.Items[i].Namespace, list.Items[i].Name}] = true
		}
		return func(namespace, name string) bool { return has[[2]string{namespace, name}] }, nil
	}
}

func versionCommand(f *cluster.Flags) *cobra.Command {
	var client bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of kube-vmap on the nodes",
		Long: `Print the versions of this program and of kube-vmap on the nodes, each with the
nodes that run it if there are several. Nodes that do not answer are named.

The exit code is 1 if a node did not answer.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), "kubectl-vmap", version); err != nil || client {
				return err
			}
			return printVersions(cmd, f.Nodes(""))
		},
	}
	cmd.Flags().BoolVar(&client, "client", false, "print the version of this program only")
	return cmd
}

func printVersions(cmd *cobra.Command, r *cluster.Nodes) error {
	list, err := r.Find(cmd.Context())
	if err != nil {
		return err
	}
	found := map[string][]string{} // nodes by version
	failures, _ := nodes.Answers(cmd.Context(), list, r.Cluster.Version, func(n nodes.Node, version string) error {
		found[version] = append(found[version], n.Name)
		return nil
	})
	for _, version := range slices.Sorted(maps.Keys(found)) {
		names := slices.Sorted(slices.Values(found[version]))
		line := fmt.Sprintf("kube-vmap %s on %s", version, nodestatus.Plural(len(names), "node"))
		if len(found) > 1 {
			line += ": " + nodes.Names(names)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	return failures.Err(cmd.ErrOrStderr())
}
