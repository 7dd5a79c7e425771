package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/sync/source/cluster/selectors"
)

// A node lags if the API server had objects, before the node was asked, that are newer than
// what the node has seen. Resource versions of a resource are comparable (KEP-5504).

// followed are the kinds of objects that change the rules of every node, as kube-vmap lists
// them.
var followed = []struct {
	kind     string
	resource schema.GroupVersionResource
	options  func() metav1.ListOptions // after flags are parsed
}{
	{
		"Service", corev1.SchemeGroupVersion.WithResource("services"),
		func() metav1.ListOptions {
			return metav1.ListOptions{LabelSelector: selectors.ServiceLabels(), FieldSelector: selectors.ServiceFields}
		},
	},
	{
		"EndpointSlice", discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		func() metav1.ListOptions { return metav1.ListOptions{LabelSelector: selectors.SliceLabels} },
	},
}

// objectVersions are the resource versions of the API server's objects at one moment, by
// kind, sorted.
type objectVersions map[string][]string

func statusCommand(f *cluster.Flags) *cobra.Command {
	n := f.Nodes("all if there is none")
	return status.NewCommand(n, func(ctx context.Context) (func(*nodestatus.Health) (*status.Lag, error), error) {
		api, err := readVersions(ctx, n.REST())
		if err != nil {
			return nil, err
		}
		return api.lag, nil
	})
}

// readVersions lists all followed objects, without their content.
func readVersions(ctx context.Context, config *rest.Config) (objectVersions, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	out := objectVersions{}
	for _, f := range followed {
		list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(f.resource).List(ctx, o)
		})
		err := list.EachListItem(ctx, f.options(), func(o runtime.Object) error {
			m, err := meta.Accessor(o)
			if err == nil {
				_, err = resourceversion.CompareResourceVersion(m.GetResourceVersion(), m.GetResourceVersion())
			}
			if err == nil {
				out[f.kind] = append(out[f.kind], m.GetResourceVersion())
			}
			return err
		})
		if apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("no permission to list %s, which the ClusterRole in deploy/kubectl gives: %w",
				f.resource.Resource, err)
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", f.resource.Resource, err)
		}
		slices.SortFunc(out[f.kind], mustCompare)
	}
	return out, nil
}

func mustCompare(a, b string) int { n, _ := resourceversion.CompareResourceVersion(a, b); return n }

// lag returns how far a node is behind the objects; nil if it does not follow the API server. An
// object that the node has not listed yet is newer than anything.
func (o objectVersions) lag(h *nodestatus.Health) (*status.Lag, error) {
	newer := map[string]int{}
	for _, f := range followed {
		if !slices.ContainsFunc(h.Positions, func(p nodestatus.Position) bool { return p.Kind == f.kind }) {
			return nil, nil
		}
		seen := h.Position(f.kind)
		if newer[f.kind] = len(o[f.kind]); seen == "" {
			continue
		}
		if _, err := resourceversion.CompareResourceVersion(seen, seen); err != nil {
			return nil, err
		}
		older, found := slices.BinarySearchFunc(o[f.kind], seen, mustCompare)
		if found {
			older++
		}
		newer[f.kind] -= older
	}
	return &status.Lag{Services: newer["Service"], EndpointSlices: newer["EndpointSlice"]}, nil
}
