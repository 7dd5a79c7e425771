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
	"kube-vmap/sync/convert"
)

// convertFunc makes an item of an API object, or returns one that was made before.
type convertFunc func(obj any) (*convertedObject, error)

// convertOnly is a reducer of objects of the type T.
func convertOnly[T any](reduce func(*T) *convertedObject) convertFunc {
	return func(obj any) (*convertedObject, error) {
		switch o := obj.(type) {
		case *convertedObject:
			return o, nil
		case *T:
			return reduce(o), nil
		}
		return nil, fmt.Errorf("the API sent a %T where a %T was expected", obj, new(T))
	}
}

// newConvertedObject is the item of an object that was converted to value, nil if there is
// none, with the result errs.
func newConvertedObject(o *metav1.ObjectMeta, value any, errs field.ErrorList) *convertedObject {
	it := &convertedObject{objectName: objectName{o.Namespace, o.Name}, uid: string(o.UID)}
	if value != nil {
		it.value, it.content = value, contentHash(value)
	}
	if len(errs) > 0 {
		it.err = errs.ToAggregate()
	}
	return it
}

// serviceConverter makes items of Services.
func serviceConverter() convertFunc {
	names := interner{}
	return convertOnly(func(s *corev1.Service) *convertedObject {
		s.Namespace = names.intern(s.Namespace)
		service, errs := convert.Service(s)
		if service == nil {
			return newConvertedObject(&s.ObjectMeta, nil, errs)
		}
		for i := range service.Ports {
			service.Ports[i].Name = names.intern(service.Ports[i].Name)
		}
		return newConvertedObject(&s.ObjectMeta, sync.SetService{Service: *service}, errs)
	})
}

// sliceConverter makes items of EndpointSlices.
func sliceConverter() convertFunc {
	names := interner{}
	return convertOnly(func(s *discoveryv1.EndpointSlice) *convertedObject {
		s.Namespace = names.intern(s.Namespace)
		slice, errs := convert.Slice(s)
		if slice == nil {
			return newConvertedObject(&s.ObjectMeta, nil, errs)
		}
		names.internSlice(slice)
		out := newConvertedObject(&s.ObjectMeta, sync.SetSlice{Slice: *slice}, errs)
		out.triggered = triggerTime(s)
		return out
	})
}

// triggerTime is when what led to the slice's last change happened, as the
// controllers that make slices note it; zero if they did not, or nothing that can
// be read.
func triggerTime(s *discoveryv1.EndpointSlice) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime])
	return t
}

// nodeConverter makes an item of the node of that name. Another one, which was not
// asked for, is nothing.
func nodeConverter(own string) convertFunc {
	return convertOnly(func(n *corev1.Node) *convertedObject {
		if n.Name != own {
			return newConvertedObject(&n.ObjectMeta, nil, nil)
		}
		node, errs := convert.Node(n)
		if node == nil {
			return newConvertedObject(&n.ObjectMeta, nil, errs)
		}
		return newConvertedObject(&n.ObjectMeta, sync.SetNode{Node: *node, Ineligible: convert.Ineligible(n)}, errs)
	})
}

// serviceCIDRConverter makes items of ServiceCIDRs.
func serviceCIDRConverter() convertFunc {
	return convertOnly(func(c *networkingv1.ServiceCIDR) *convertedObject {
		ranges, errs := convert.ServiceCIDR(c)
		if ranges == nil {
			return newConvertedObject(&c.ObjectMeta, nil, errs)
		}
		return newConvertedObject(&c.ObjectMeta, ranges, errs)
	})
}
