package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/cluster"
)

func getCommand(f *cluster.Flags) *cobra.Command {
	var o get.Options
	cmd := &cobra.Command{
		Use:   "get services|endpoints|frontends [NAME...]",
		Short: "Show what nodes program for Services, like kubectl get",
		Long: `Show what nodes program for Services, endpoints or frontends (the addresses and ports
that clients connect to), as kube-vmap reports it there.

All nodes program the same Services, so by default one of them is asked, and named on
stderr. Numbers of connections are those of the node, and so is what depends on where
it is: NotLocal, hints, slots. --node NAME asks another one; with several names or
--all-nodes, the rows have a column NODE and come as the nodes answer. Nodes that do
not answer are named at the end, and make the exit code 1.

` + get.Help(),
		Example: `  kubectl vmap get svc -A
  kubectl vmap get endpoints -n shop web --node node-1 -o wide
  kubectl vmap get svc -n shop web --all-nodes
  kubectl vmap get svc -A --all-nodes --field-selector severity=Problem`,
		ValidArgsFunction: get.Complete,
	}
	o.AddFlags(cmd)
	var labels string
	cmd.Flags().StringVarP(&labels, "selector", "l", "", "only Services with the labels of a `selector`, and their parts")
	r := f.Nodes("by default one that answers")
	r.AddFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := r.Find(cmd.Context())
		if err != nil {
			return err
		}
		o.Args = args
		if _, o.Namespace, err = r.Namespace(); err != nil {
			return err
		}
		if o.Has, err = hasLabels(cmd.Context(), r, labels); err != nil {
			return err
		}
		if list.Chosen && (len(list.Nodes) > 1 || cmd.Flags().Changed("all-nodes")) {
			return getAll(cmd, r, list, o)
		}
		return get.Run(cmd.Context(), o, documentOfFirst(r, list.Nodes), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// hasLabels returns which Services have the labels of a selector, as the API server knows them; nil
// without a selector.
func hasLabels(ctx context.Context, r *cluster.Nodes, selector string) (func(namespace, name string) bool, error) {
	if selector == "" {
		return nil, nil
	}
	api, err := metadata.NewForConfig(r.REST())
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

// attempts is how many nodes are asked until one answers.
const attempts = 3

// documentOfFirst returns the source of a node that answers.
func documentOfFirst(r nodes.Nodes, all []nodes.Node) get.Source {
	return func(ctx context.Context, q nodestatus.Query) (*nodestatus.Document, string, error) {
		candidates := slices.DeleteFunc(slices.Clone(all), func(n nodes.Node) bool { return n.Missing })
		nodes.ReadyFirst(candidates)
		failed := fmt.Errorf("%s: %s", all[0].Name, all[0].Why)
		if len(all) > 1 {
			failed = fmt.Errorf("no node of %d runs kube-vmap, for instance %w", len(all), failed)
		}
		before := ""
		for _, n := range candidates[:min(attempts, len(candidates))] {
			note := before
			if len(all) > 1 {
				note += fmt.Sprintf("Of node %s; --all-nodes shows all %d, --node another one.", n.Name, len(all))
			}
			d, err := r.Document(ctx, n, q)
			if err == nil {
				return d, note, nil
			}
			failed = fmt.Errorf("%s: %w", n.Name, err)
			before = failed.Error() + "\n"
			if ctx.Err() != nil || errors.Is(err, nodes.ErrNoPermission) {
				break
			}
		}
		return nil, "", failed
	}
}

// getAll prints the rows of nodes as they answer.
func getAll(cmd *cobra.Command, r nodes.Nodes, list nodes.List, o get.Options) error {
	p, err := get.NewNodesPrinter(o, cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	failures, err := nodes.Answers(cmd.Context(), list, func(ctx context.Context, n nodes.Node) (*nodestatus.Document, error) {
		return r.Document(ctx, n, p.Query())
	}, func(n nodes.Node, d *nodestatus.Document) error { return p.Print(n.Name, d) })
	if err != nil {
		return err
	}
	return errors.Join(p.Close(), failures.Err(cmd.ErrOrStderr()))
}
