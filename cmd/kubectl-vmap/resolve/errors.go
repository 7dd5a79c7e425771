package resolve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-vmap/cmd/inspect/nodestatus"
)

// maxSuggested is how many names an error suggests, and maxListed how many are read to
// find them.
const (
	maxSuggested = 5
	maxListed    = 1000
)

// explainError returns an error of the API server with what exists instead; nil for nil.
func (r *Resolver) explainError(ctx context.Context, kind Kind, namespace, name string, err error) error {
	if err == nil || !apierrors.IsNotFound(err) {
		return permissionError(err)
	}
	if namespace == "" {
		return fmt.Errorf("there is no %s %s%s", kind, name, existing(name, r.names(ctx, kind, "", metav1.ListOptions{})))
	}
	text := fmt.Sprintf("there is no %s %s in namespace %s", kind, name, namespace)
	same := r.names(ctx, kind, metav1.NamespaceAll, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	same = slices.DeleteFunc(same, func(n string) bool { return !strings.HasSuffix(n, "/"+name) })
	if len(same) > 0 {
		return fmt.Errorf("%s%s", text, existing(name, same))
	}
	return fmt.Errorf("%s%s", text, existing(namespace+"/"+name, r.names(ctx, kind, namespace, metav1.ListOptions{})))
}

// permissionError adds to a refusal of the API server where the permission is.
func permissionError(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; the ClusterRole of deploy/kubectl permits it", err)
	}
	return err
}

// names returns the names of objects, "namespace/name" if they have one; none if they cannot
// be listed, since they only improve an error.
func (r *Resolver) names(ctx context.Context, kind Kind, namespace string, o metav1.ListOptions) (names []string) {
	o.Limit = maxListed
	list, err := r.list(ctx, kind, namespace, o)
	if err != nil {
		return nil
	}
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		a, err := meta.Accessor(o)
		if err == nil {
			names = append(names, strings.TrimPrefix(a.GetNamespace()+"/"+a.GetName(), "/"))
		}
		return err
	})
	return names
}

func (r *Resolver) list(
	ctx context.Context, kind Kind, namespace string, o metav1.ListOptions,
) (runtime.Object, error) {
	switch kind {
	case KindPod:
		return r.API.CoreV1().Pods(namespace).List(ctx, o)
	case KindService:
		return r.API.CoreV1().Services(namespace).List(ctx, o)
	case KindDeployment:
		return r.API.AppsV1().Deployments(namespace).List(ctx, o)
	case KindStatefulSet:
		return r.API.AppsV1().StatefulSets(namespace).List(ctx, o)
	case KindDaemonSet:
		return r.API.AppsV1().DaemonSets(namespace).List(ctx, o)
	default:
		return r.API.CoreV1().Nodes().List(ctx, o)
	}
}

// existing returns the names that exist instead of one that does not.
func existing(name string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	sortBySimilarity(names, func(n string) int { return distance(name, n[:min(len(n), len(name))]) })
	return "; there is " + nodestatus.JoinFirst(names, len(names), maxSuggested)
}

// sortBySimilarity sorts texts by how far they are from what is meant.
func sortBySimilarity(texts []string, far func(string) int) {
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(far(a)-far(b), strings.Compare(a, b)) })
}

// distance returns how many characters must be added, removed or replaced to make one text the
// other (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
