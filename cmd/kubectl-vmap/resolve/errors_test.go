package resolve

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestMissingPermissionIsNamed has users who may not read some objects.
func TestMissingPermissionIsNamed(t *testing.T) {
	for _, tc := range []struct{ verb, resource, from, want string }{
		{"get", "pods", "pod/cart-0", `pods is forbidden: no; the ClusterRole of deploy/kubectl permits it`},
		{"list", "pods", "deploy/cart", "deploy/kubectl permits it"},
		{"get", "deployments", "deploy/cart", "deploy/kubectl permits it"},
		{"get", "nodes", "node/node-1", "deploy/kubectl permits it"},
		{"list", "nodes", "10.244.1.7", "deploy/kubectl permits it"},
		{"list", "pods", "10.244.1.7", "deploy/kubectl permits it"},
		{"list", "endpointslices", "198.51.100.7", "deploy/kubectl permits it"},
	} {
		r := newResolver()
		r.API.(*fake.Clientset).PrependReactor(tc.verb, tc.resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: tc.resource}, "", errors.New("no"))
		})
		_, err := r.Client(t.Context(), tc.from)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s, %s: %v, want %q", tc.verb, tc.resource, tc.from, err, tc.want)
		}
	}
}
