package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"kube-vmap/cmd/inspect/explain/reference"
	"kube-vmap/cmd/kubectl-vmap/cluster"
)

// Commands and flags are completed by cobra; these are the names of objects, which come from
// the API server, in a short time or not at all. The script by which kubectl requests them
// (k8s.io/kubectl/pkg/cmd/plugin_completion.go) is next to this file:
//
//	shell --> kubectl __complete vmap ... --> kubectl_complete-vmap --> kubectl-vmap __complete ...
type completer struct{ flags *cluster.Flags }

const (
	completionTimeout = 3 * time.Second
	maxCompletions    = 500
)

// register completes the values of flags and the names of objects, of a command and all below.
func (c completer) register(cmd *cobra.Command) {
	services := c.objects("svc/")
	for name, complete := range map[string]cobra.CompletionFunc{
		"namespace": c.namespaces, "proxy-namespace": c.namespaces, "node": c.objects("node/"), "context": c.contexts,
		"from": c.objects("pod/", "deploy/", "sts/", "ds/", "node/"),
		"to":   c.objects("svc/", "pod/", "deploy/", "sts/", "ds/"),
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails if the command has no such flag
	}
	if first := cmd.ValidArgsFunction; first != nil { // a resource, and then Services
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return first(cmd, args, typed)
			}
			return services(cmd, args, typed)
		}
	}
	if strings.Contains(cmd.Use, "[SERVICE...]") {
		cmd.ValidArgsFunction = services
	}
	for _, sub := range cmd.Commands() {
		c.register(sub)
	}
}

// objects completes KIND/NAME and KIND/NAMESPACE/NAME of some kinds; of one kind, only NAME.
func (c completer) objects(kinds ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		kind, rest, found := strings.Cut(typed, "/")
		prefix := kind + "/"
		switch {
		case len(kinds) == 1:
			kind, rest, prefix = strings.TrimSuffix(kinds[0], "/"), typed, ""
		case !found:
			return matching(kinds, "", typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		case !slices.Contains(kinds, prefix):
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		_, resource, _ := reference.KindOf(kind)
		namespace := ""
		if kind != "node" {
			namespace, _ = c.flags.CurrentNamespace()
			if given, name, ok := strings.Cut(rest, "/"); ok {
				namespace, rest, prefix = given, name, prefix+given+"/"
			}
		}
		return matching(c.list(cmd.Context(), resource, namespace), prefix, rest), cobra.ShellCompDirectiveNoFileComp
	}
}

func (c completer) namespaces(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	return matching(c.list(cmd.Context(), resource, ""), "", typed), cobra.ShellCompDirectiveNoFileComp
}

func (c completer) contexts(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	config, _ := c.flags.RawConfig() // has none if it cannot be read
	return matching(slices.Sorted(maps.Keys(config.Contexts)), "", typed), cobra.ShellCompDirectiveNoFileComp
}

func matching(names []string, prefix, typed string) (out []string) {
	for _, name := range names {
		if strings.HasPrefix(name, typed) {
			out = append(out, prefix+name)
		}
	}
	return out
}

// list returns the names of objects; none if the API server does not answer in time.
func (c completer) list(ctx context.Context, resource schema.GroupVersionResource, namespace string) (out []string) {
	config, err := c.flags.ClientConfig.ClientConfig()
	if err != nil {
		return nil
	}
	config.Timeout = completionTimeout
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil
	}
	found, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: maxCompletions})
	if err != nil {
		return nil
	}
	for i := range found.Items {
		out = append(out, found.Items[i].Name)
	}
	return out
}
