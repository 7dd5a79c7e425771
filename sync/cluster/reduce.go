package cluster

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/sync"
)

// reducer makes an item of an API object, or returns one that was made before.
type reducer func(obj any) (*item, error)

// reducing is a reducer of objects of the type T.
func reducing[T any](reduce func(*T) *item) reducer {
	return func(obj any) (*item, error) {
		switch o := obj.(type) {
		case *item:
			return o, nil
		case *T:
			return reduce(o), nil
		}
		return nil, fmt.Errorf("the API sent a %T where a %T was expected", obj, new(T))
	}
}

// newItem is the item of an object that was converted to value, nil if there is
// none, with the result errs.
func newItem(o *metav1.ObjectMeta, value any, errs field.ErrorList) *item {
	it := &item{name: name{o.Namespace, o.Name}, uid: string(o.UID)}
	if value != nil {
		it.value, it.meaning = value, meaningOf(value)
	}
	if len(errs) > 0 {
		it.err = errs.ToAggregate()
	}
	return it
}

// reduceServices makes items of Services.
func reduceServices() reducer {
	names := interner{}
	return reducing(func(s *corev1.Service) *item {
		s.Namespace = names.one(s.Namespace)
		service, errs := sync.ConvertService(s)
		if service == nil {
			return newItem(&s.ObjectMeta, nil, errs)
		}
		for i := range service.Ports {
			service.Ports[i].Name = names.one(service.Ports[i].Name)
		}
		return newItem(&s.ObjectMeta, sync.SetService{Service: *service}, errs)
	})
}

// reduceSlices makes items of EndpointSlices.
func reduceSlices() reducer {
	names := interner{}
	return reducing(func(s *discoveryv1.EndpointSlice) *item {
		s.Namespace = names.one(s.Namespace)
		slice, errs := sync.ConvertSlice(s)
		if slice == nil {
			return newItem(&s.ObjectMeta, nil, errs)
		}
		names.slice(slice)
		out := newItem(&s.ObjectMeta, sync.SetSlice{Slice: *slice}, errs)
		out.triggered = triggered(s)
		return out
	})
}

// triggered is when what led to the slice's last change happened, as the
// controllers that make slices note it; zero if they did not, or nothing that can
// be read.
func triggered(s *discoveryv1.EndpointSlice) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime])
	return t
}

// reduceNode makes an item of the node of that name. Another one, which was not
// asked for, is nothing.
func reduceNode(own string) reducer {
	return reducing(func(n *corev1.Node) *item {
		if n.Name != own {
			return newItem(&n.ObjectMeta, nil, nil)
		}
		node, errs := sync.ConvertNode(n)
		if node == nil {
			return newItem(&n.ObjectMeta, nil, errs)
		}
		return newItem(&n.ObjectMeta, *node, errs)
	})
}

// reduceServiceCIDRs makes items of ServiceCIDRs.
func reduceServiceCIDRs() reducer {
	return reducing(func(c *networkingv1.ServiceCIDR) *item {
		ranges, errs := sync.ConvertServiceCIDR(c)
		if ranges == nil {
			return newItem(&c.ObjectMeta, nil, errs)
		}
		return newItem(&c.ObjectMeta, ranges, errs)
	})
}
