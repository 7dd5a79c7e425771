package status

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/sync/cluster/selectors"
)

// followed are the kinds of objects that change the rules of every node, as kube-vmap lists
// them.
var followed = []struct {
	kind     string
	resource schema.GroupVersionResource
	options  metav1.ListOptions
}{
	{
		"Service", corev1.SchemeGroupVersion.WithResource("services"),
		metav1.ListOptions{LabelSelector: selectors.ServiceLabels, FieldSelector: selectors.ServiceFields},
	},
	{"EndpointSlice", discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), metav1.ListOptions{LabelSelector: selectors.SliceLabels}},
}

// Lag counts the objects of each followed kind that are newer than what a node has seen.
type Lag struct {
	Services       int `json:"services"`
	EndpointSlices int `json:"endpointSlices"`
}

// Sum returns the number of all such objects.
func (l *Lag) Sum() int { return l.Services + l.EndpointSlices }

// objects are the resource versions of the API server's objects at one moment, by kind,
// sorted.
type objects map[string][]string

// readObjects lists all followed objects, without their content.
func readObjects(ctx context.Context, client metadata.Interface) (objects, error) {
	out := objects{}
	for _, f := range followed {
		var versions []string
		list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(f.resource).List(ctx, o)
		})
		err := list.EachListItem(ctx, f.options, func(o runtime.Object) error {
			m, err := meta.Accessor(o)
			if err != nil {
				return err
			}
			if _, err := compare(m.GetResourceVersion(), m.GetResourceVersion()); err != nil {
				return err
			}
			versions = append(versions, m.GetResourceVersion())
			return nil
		})
		if apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("no permission to list %s, which the ClusterRole in deploy/kubectl gives: %w", f.resource.Resource, err)
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", f.resource.Resource, err)
		}
		slices.SortFunc(versions, func(a, b string) int { n, _ := compare(a, b); return n }) // all are comparable
		out[f.kind] = versions
	}
	return out, nil
}

// compare compares resource versions of the same resource.
func compare(a, b string) (int, error) { return resourceversion.CompareResourceVersion(a, b) }

// errNoPositions is returned for a node that does not follow the API server.
var errNoPositions = errors.New("the node reads its objects elsewhere")

// lag returns how far a node is behind the objects. An object that the node has not listed
// yet is newer than anything.
func (o objects) lag(h *status.Health) (*Lag, error) {
	newer := map[string]int{}
	for _, f := range followed {
		i := slices.IndexFunc(h.Positions, func(p status.Position) bool { return p.Kind == f.kind })
		if i < 0 {
			return nil, errNoPositions
		}
		n, err := countNewer(o[f.kind], h.Positions[i].ResourceVersion)
		if err != nil {
			return nil, err
		}
		newer[f.kind] = n
	}
	return &Lag{Services: newer["Service"], EndpointSlices: newer["EndpointSlice"]}, nil
}

// countNewer returns how many sorted resource versions are newer than one; all are if that
// is empty.
func countNewer(versions []string, than string) (int, error) {
	if than == "" {
		return len(versions), nil
	}
	if _, err := compare(than, than); err != nil {
		return 0, err
	}
	i, _ := slices.BinarySearchFunc(versions, than, func(version, than string) int {
		if n, _ := compare(version, than); n > 0 {
			return 1
		}
		return -1
	})
	return len(versions) - i, nil
}
