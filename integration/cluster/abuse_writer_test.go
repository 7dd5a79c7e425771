package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typeddiscoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/util/retry"

	"kube-vmap/integration/cluster/objects"
)

// writer writes objects of an attack to the API: Services and EndpointSlices in the
// namespace of the tenant that attacks, and ServiceCIDRs. Instead of writing a Node it
// changes the proxy's one.
type writer struct {
	client kubernetes.Interface
	evil   *objects.Namespace
	node   string
	// was is the Node before it was first changed.
	was *corev1.Node
}

// atATime is how many requests are under way.
const atATime = 32

func (w *writer) createAll(ctx context.Context, all []metav1.Object) (writes, written int, err error) {
	return w.all(ctx, all, w.create)
}

// updateAll writes versions of one object in their order.
func (w *writer) updateAll(ctx context.Context, all []metav1.Object) (writes, written int, err error) {
	return w.all(ctx, all, w.update)
}

func (w *writer) deleteAll(ctx context.Context, all []metav1.Object) (writes, written int, err error) {
	writes, _, err = w.all(ctx, all, w.remove)
	return writes, 0, err
}

// all does something with each object, with many at the same time unless they are of
// the same name.
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
	for _, list := range versions(all) {
		group.Go(func() error {
			for _, o := range list {
				if err := do(ctx, o); err != nil {
					return fmt.Errorf("%T %s: %w", o, o.GetName(), err)
				}
			}
			return nil
		})
	}
	return len(all), written, group.Wait()
}

// versions gathers what is of one kind and name, in order.
func versions(all []metav1.Object) (out [][]metav1.Object) {
	at := map[string]int{}
	for _, o := range all {
		key := fmt.Sprintf("%T/%s", o, o.GetName())
		i, known := at[key]
		if !known {
			i = len(out)
			at[key], out = i, append(out, nil)
		}
		out[i] = append(out[i], o)
	}
	return out
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
	case *networkingv1.ServiceCIDR:
		_, err = w.client.NetworkingV1().ServiceCIDRs().Create(ctx, o, metav1.CreateOptions{})
	case *corev1.Node:
		err = w.updateNode(ctx, o)
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
	case *networkingv1.ServiceCIDR:
		_, err = w.client.NetworkingV1().ServiceCIDRs().Update(ctx, o, metav1.UpdateOptions{})
	case *corev1.Node:
		err = w.updateNode(ctx, o)
	}
	return err
}

// remove deletes an object, if it exists. The Node becomes what it was.
func (w *writer) remove(ctx context.Context, o metav1.Object) (err error) {
	switch o := o.(type) {
	case *corev1.Service:
		err = w.services().Delete(ctx, o.Name, metav1.DeleteOptions{})
	case *discoveryv1.EndpointSlice:
		err = w.slices().Delete(ctx, o.Name, metav1.DeleteOptions{})
	case *networkingv1.ServiceCIDR:
		err = w.removeCIDR(ctx, o.Name)
	case *corev1.Node:
		if w.was != nil {
			err = w.updateNode(ctx, w.was)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeCIDR does not wait for the controller, which takes a second for each.
func (w *writer) removeCIDR(ctx context.Context, name string) error {
	cidrs := w.client.NetworkingV1().ServiceCIDRs()
	if err := cidrs.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err := cidrs.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
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

// updateNode gives the proxy's Node labels, annotations, taints and addresses.
func (w *writer) updateNode(ctx context.Context, o *corev1.Node) error {
	nodes := w.client.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := nodes.Get(ctx, w.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if w.was == nil {
			w.was = n.DeepCopy()
		}
		n.Labels, n.Annotations, n.Spec.Taints = o.Labels, o.Annotations, o.Spec.Taints
		if n, err = nodes.Update(ctx, n, metav1.UpdateOptions{}); err != nil {
			return err
		}
		// The node's own addresses come first: they are not what is attacked.
		n.Status.Addresses = slices.Concat(w.was.Status.Addresses, o.Status.Addresses)
		if o == w.was {
			n.Status.Addresses = o.Status.Addresses
		}
		_, err = nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

func (w *writer) services() typedcorev1.ServiceInterface {
	return w.client.CoreV1().Services(w.evil.Name)
}

func (w *writer) slices() typeddiscoveryv1.EndpointSliceInterface {
	return w.client.DiscoveryV1().EndpointSlices(w.evil.Name)
}
