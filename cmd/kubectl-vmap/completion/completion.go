// Package completion completes names of objects in command lines of kubectl vmap. The script
// by which kubectl requests that (k8s.io/kubectl/pkg/cmd/plugin_completion.go) is beside it.
//
//	shell --> kubectl __complete vmap ... --> kubectl_complete-vmap --> kubectl-vmap __complete ...
//
// Names come from the API server, in a short time or not at all.
package completion

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// Limits of a completion.
const (
	timeout  = 3 * time.Second
	maxNames = 500
)

// complete is what cobra calls to complete an argument or the value of a flag.
type complete = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// Register sets the functions that complete the values of flags and the names of objects, for
// a command and all below it.
func Register(root *cobra.Command, f *nodes.Flags) {
	c := completer{f}
	values := map[string]complete{
		"namespace": c.names(namespaces), "proxy-namespace": c.names(namespaces), "node": c.names(nodeNames), "context": c.contexts,
		"from": c.objects("pod", "deploy", "sts", "ds", "node"), "to": c.objects("svc", "pod", "deploy", "sts", "ds"),
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for name, complete := range values {
			_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails if the command has no such flag
		}
		if first := cmd.ValidArgsFunction; first != nil { // a resource, and then Services
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				if len(args) == 0 {
					return first(cmd, args, typed)
				}
				return c.names(kinds["svc"])(cmd, args, typed)
			}
		}
		if strings.Contains(cmd.Use, "[SERVICE...]") {
			cmd.ValidArgsFunction = c.names(kinds["svc"])
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// A resource is a kind of objects in the API.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
}

var (
	namespaces = resource{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, false}
	nodeNames  = resource{schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, false}
	kinds      = map[string]resource{
		"svc":    {schema.GroupVersionResource{Version: "v1", Resource: "services"}, true},
		"pod":    {schema.GroupVersionResource{Version: "v1", Resource: "pods"}, true},
		"deploy": {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true},
		"sts":    {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, true},
		"ds":     {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, true},
		"node":   nodeNames,
	}
)

type completer struct{ flags *nodes.Flags }

// names completes names of a resource, in the namespace of -n if it has namespaces.
func (c completer) names(r resource) complete {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		namespace := ""
		if r.namespaced {
			namespace, _ = c.flags.CurrentNamespace()
		}
		return c.list(cmd.Context(), r, namespace, "", typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// objects completes KIND/NAME and KIND/NAMESPACE/NAME of some kinds.
func (c completer) objects(list ...string) complete {
	return func(cmd *cobra.Command, _ []string, typed string) (out []string, _ cobra.ShellCompDirective) {
		kind, rest, found := strings.Cut(typed, "/")
		if !found {
			for _, k := range list {
				if strings.HasPrefix(k, typed) {
					out = append(out, k+"/")
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		if !slices.Contains(list, kind) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		r, prefix := kinds[kind], kind+"/"
		namespace, name, inNamespace := strings.Cut(rest, "/")
		switch {
		case !r.namespaced:
			namespace, name = "", rest
		case inNamespace:
			prefix += namespace + "/"
		default:
			name = rest
			namespace, _ = c.flags.CurrentNamespace()
		}
		return c.list(cmd.Context(), r, namespace, prefix, name), cobra.ShellCompDirectiveNoFileComp
	}
}

// list returns the names of objects that begin as typed, each after a prefix; none if the API
// server does not answer in time.
func (c completer) list(ctx context.Context, r resource, namespace, prefix, typed string) (out []string) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil
	}
	config.Timeout = timeout
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil
	}
	found, err := client.Resource(r.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: maxNames})
	if err != nil {
		return nil
	}
	for i := range found.Items {
		if name := found.Items[i].Name; strings.HasPrefix(name, typed) {
			out = append(out, prefix+name)
		}
	}
	return out
}

// contexts completes the contexts of the kubeconfig.
func (c completer) contexts(_ *cobra.Command, _ []string, typed string) (out []string, _ cobra.ShellCompDirective) {
	config, err := c.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for name := range config.Contexts {
		if strings.HasPrefix(name, typed) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, cobra.ShellCompDirectiveNoFileComp
}
