package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-vmap/integration/cluster/objects"
)

// writer writes objects of an attack to the API: Services and EndpointSlices in the
// namespace of the tenant that attacks.
type writer struct{ evil *objects.Namespace }

// atATime is how many requests are under way.
const atATime = 32

// all sends a request of the method for each object, with many at the same time. It returns how
// many, and their bytes.
func (w *writer) all(ctx context.Context, method string, all []metav1.Object) (writes, written int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for _, o := range all {
		b, err := json.Marshal(o)
		if err != nil {
			return 0, 0, err
		}
		if method != http.MethodDelete {
			written += len(b)
		}
		group.Go(func() error {
			err := w.send(ctx, method, o, "")
			if s, is := o.(*corev1.Service); is && err == nil && method != http.MethodDelete && len(s.Status.LoadBalancer.Ingress)+len(s.Status.Conditions) > 0 {
				err = w.send(ctx, http.MethodPut, o, "status")
			}
			if err != nil {
				return fmt.Errorf("%T %s: %w", o, o.GetName(), err)
			}
			return nil
		})
	}
	return len(all), written, group.Wait()
}

// send sends one. An object to delete may be gone.
func (w *writer) send(ctx context.Context, method string, o metav1.Object, part string) error {
	client, resource := w.evil.Client.CoreV1().RESTClient(), "services"
	if _, is := o.(*discoveryv1.EndpointSlice); is {
		client, resource = w.evil.Client.DiscoveryV1().RESTClient(), "endpointslices"
	}
	r := client.Verb(method).Namespace(w.evil.Name).Resource(resource)
	if method != http.MethodPost {
		r = r.Name(o.GetName()).SubResource(part)
	}
	if method != http.MethodDelete {
		r = r.Body(o.(runtime.Object))
	}
	err := r.Do(ctx).Error()
	if method == http.MethodDelete && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
