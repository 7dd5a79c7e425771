package cluster

import (
	"fmt"
	stdsync "sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/sync"
	"kube-vmap/sync/convert"
)

// An objectName names an object among those of its kind.
type objectName struct{ namespace, name string }

// A convertedObject is what the proxy uses of an API object. It shares no memory with
// it. It is a [runtime.Object] because the lists and stores of client-go require one.
type convertedObject struct {
	metav1.Object // has the methods that are not below
	objectName
	version   string // resource version
	value     any    // what the store's eventFunc takes; nil if nothing of the object is used
	content   uint64 // hash of value; zero if that is nil
	err       error  // why the object cannot be used, as a whole or in part
	uid       string
	triggered time.Time // what caused the last change, if known
}

// GetNamespace implements [metav1.Object].
func (i *convertedObject) GetNamespace() string { return i.namespace }

// GetName implements [metav1.Object].
func (i *convertedObject) GetName() string { return i.name }

// GetResourceVersion implements [metav1.Object].
func (i *convertedObject) GetResourceVersion() string { return i.version }

// GetObjectKind implements [runtime.Object].
func (*convertedObject) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements [runtime.Object]; converted objects are immutable.
func (i *convertedObject) DeepCopyObject() runtime.Object { return i }

// A convertFunc converts an API object; it returns a converted object unchanged.
type convertFunc func(obj any) (*convertedObject, error)

// convertOnly returns a convertFunc for objects of type T.
func convertOnly[T any](convert func(*T) *convertedObject) convertFunc {
	var mu stdsync.Mutex // a watch may begin while the one before decodes its last object
	return func(obj any) (*convertedObject, error) {
		switch o := obj.(type) {
		case *convertedObject:
			return o, nil
		case *T:
			mu.Lock()
			defer mu.Unlock()
			return convert(o), nil
		}
		return nil, fmt.Errorf("the API server sent a %T instead of a %T", obj, new(T))
	}
}

// noMetadata is that of nearly all converted objects.
var noMetadata = &metav1.ObjectMeta{}

// newConvertedObject returns the object with that metadata, converted to value or, if
// nothing of it can be used, nil.
func newConvertedObject(o *metav1.ObjectMeta, value any, errs field.ErrorList) *convertedObject {
	converted := &convertedObject{
		Object: noMetadata, objectName: objectName{o.Namespace, o.Name}, version: o.ResourceVersion, uid: string(o.UID),
	}
	if end, bookmark := o.Annotations[metav1.InitialEventsAnnotationKey]; bookmark {
		converted.Object = &metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: end}}
	}
	if value != nil {
		converted.value, converted.content = value, contentHash(value)
	}
	if len(errs) > 0 {
		converted.err = errs.ToAggregate()
	}
	return converted
}

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

// triggerTime returns when the change that led to the slice's last update happened,
// which the EndpointSlice controllers annotate; zero without a valid annotation.
func triggerTime(s *discoveryv1.EndpointSlice) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime])
	return t
}

// nodeConverter ignores every Node but the proxy's own, although it asks for that only.
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

func serviceCIDRConverter() convertFunc {
	return convertOnly(func(c *networkingv1.ServiceCIDR) *convertedObject {
		ranges, errs := convert.ServiceCIDR(c)
		if ranges == nil {
			return newConvertedObject(&c.ObjectMeta, nil, errs)
		}
		return newConvertedObject(&c.ObjectMeta, ranges, errs)
	})
}
