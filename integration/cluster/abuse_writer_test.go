package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typeddiscoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"kube-vmap/integration/cluster/objects"
)

// writer writes objects of an attack to the API: Services and EndpointSlices in the
// namespace of the tenant that attacks.
type writer struct {
	client kubernetes.Interface
	evil   *objects.Namespace
}

// atATime is how many requests are under way.
const atATime = 32

func (w *writer) createAll(ctx context.Context, all []metav1.Object) (writes, written int, err error) {
	return w.all(ctx, all, w.create)
}

func (w *writer) updateAll(ctx context.Context, all []metav1.Object) (writes, written int, err error) {
	return w.all(ctx, all, w.update)
}

func (w *writer) deleteAll(ctx context.Context, all []metav1.Object) (writes, written int, err error) {
	writes, _, err = w.all(ctx, all, w.remove)
	return writes, 0, err
}

// all does something with each object, with many at the same time.
func (w *writer) all(ctx context.Context, all []metav1.Object, do func(context.Context, metav1.Object) error) (writes, written int, err error) {
	for _, o := range all {
		b, err := json.Marshal(o)
		if err != nil {
			return 0, 0, err
		}
		written += len(b)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for _, o := range all {
		group.Go(func() error {
			if err := do(ctx, o); err != nil {
				return fmt.Errorf("%T %s: %w", o, o.GetName(), err)
			}
			return nil
		})
	}
	return len(all), written, group.Wait()
}

func (w *writer) create(ctx context.Context, o metav1.Object) (err error) {
	switch o := o.(type) {
	case *corev1.Service:
		var made *corev1.Service
		if made, err = w.services().Create(ctx, o, metav1.CreateOptions{}); err == nil {
			err = w.status(ctx, o, made)
		}
	case *discoveryv1.EndpointSlice:
		_, err = w.slices().Create(ctx, o, metav1.CreateOptions{})
	}
	return err
}

func (w *writer) update(ctx context.Context, o metav1.Object) (err error) {
	switch o := o.(type) {
	case *corev1.Service:
		var made *corev1.Service
		if made, err = w.services().Update(ctx, o, metav1.UpdateOptions{}); err == nil {
			err = w.status(ctx, o, made)
		}
	case *discoveryv1.EndpointSlice:
		_, err = w.slices().Update(ctx, o, metav1.UpdateOptions{})
	}
	return err
}

// remove deletes an object, if it exists.
func (w *writer) remove(ctx context.Context, o metav1.Object) (err error) {
	switch o := o.(type) {
	case *corev1.Service:
		err = w.services().Delete(ctx, o.Name, metav1.DeleteOptions{})
	case *discoveryv1.EndpointSlice:
		err = w.slices().Delete(ctx, o.Name, metav1.DeleteOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// status gives a Service the status of another one, if it has any.
func (w *writer) status(ctx context.Context, o, made *corev1.Service) error {
	if len(o.Status.LoadBalancer.Ingress)+len(o.Status.Conditions) == 0 {
		return nil
	}
	made.Status = o.Status
	_, err := w.services().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

func (w *writer) services() typedcorev1.ServiceInterface {
	return w.client.CoreV1().Services(w.evil.Name)
}

func (w *writer) slices() typeddiscoveryv1.EndpointSliceInterface {
	return w.client.DiscoveryV1().EndpointSlices(w.evil.Name)
}
