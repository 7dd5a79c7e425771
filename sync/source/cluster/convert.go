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

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/source/convert"
)

type objectName struct{ namespace, name string }

// A convertedObject is the part of an API object that the proxy uses. It shares no memory
// with it. It is a [runtime.Object] because the lists and stores of client-go require
// one.
type convertedObject struct {
	metav1.Object // has the methods that are not below
	objectName
	version   string // resource version
	value     any    // the input of the store's eventFunc; nil if nothing of the object is used
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

// convertOnly returns a convertFunc for objects of type T. Convert returns a nil value if nothing
// of an object can be used.
func convertOnly[T any, P interface {
	*T
	metav1.Object
}](convert func(P) (value any, errs field.ErrorList)) convertFunc {
	var mu stdsync.Mutex // a watch may begin while the one before decodes its last object
	return func(obj any) (*convertedObject, error) {
		switch o := obj.(type) {
		case *convertedObject:
			return o, nil
		case P:
			mu.Lock()
			defer mu.Unlock()
			value, errs := convert(o)
			return newConvertedObject(o, value, errs), nil
		}
		return nil, fmt.Errorf("the API server sent a %T instead of a %T", obj, new(T))
	}
}

// noMetadata is the metadata of nearly all converted objects.
var noMetadata = &metav1.ObjectMeta{}

func newConvertedObject(o metav1.Object, value any, errs field.ErrorList) *convertedObject {
	converted := &convertedObject{
		Object: noMetadata, objectName: objectName{o.GetNamespace(), o.GetName()},
		version: o.GetResourceVersion(), value: value, uid: string(o.GetUID()),
	}
	// The controllers of EndpointSlices annotate it; it is zero without a valid annotation.
	converted.triggered, _ = time.Parse(time.RFC3339Nano, o.GetAnnotations()[corev1.EndpointsLastChangeTriggerTime])
	if end, bookmark := o.GetAnnotations()[metav1.InitialEventsAnnotationKey]; bookmark {
		converted.Object = &metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: end}}
	}
	if len(errs) > 0 {
		converted.err = errs.ToAggregate()
	}
	return converted
}

func serviceConverter() convertFunc {
	names := interner{}
	return convertOnly(func(s *corev1.Service) (any, field.ErrorList) {
		s.Namespace = names.intern(s.Namespace)
		service, errs := convert.Service(s)
		if service == nil {
			return nil, errs
		}
		for i := range service.Ports {
			service.Ports[i].Name = names.intern(service.Ports[i].Name)
		}
		return sync.SetService{Service: *service}, errs
	})
}

func sliceConverter() convertFunc {
	names := interner{}
	return convertOnly(func(s *discoveryv1.EndpointSlice) (any, field.ErrorList) {
		s.Namespace = names.intern(s.Namespace)
		slice, errs := convert.Slice(s)
		if slice == nil {
			return nil, errs
		}
		names.internSlice(slice)
		return sync.SetSlice{Slice: *slice}, errs
	})
}

// nodeConverter ignores every Node but the proxy's own, although it requests only that
// one.
func nodeConverter(own string) convertFunc {
	return convertOnly(func(n *corev1.Node) (any, field.ErrorList) {
		if n.Name != own {
			return nil, nil
		}
		node, errs := convert.Node(n)
		if node == nil {
			return nil, errs
		}
		return nodeObject{sync.SetNode{Node: *node, Ineligible: convert.Ineligible(n)}, n.UID}, errs
	})
}

func serviceCIDRConverter() convertFunc {
	return convertOnly(func(c *networkingv1.ServiceCIDR) (any, field.ErrorList) {
		ranges, errs := convert.ServiceCIDR(c)
		if ranges == nil {
			return nil, errs
		}
		return ranges, errs
	})
}

// An interner keeps one copy of each string. Every endpoint names its node, and decoding copies the
// name each time, which would be a large part of the proxy's memory. Package unique does not help:
// it forgets a string as soon as no Handle of it is left, and the model keeps strings, not Handles.
type interner map[string]string

// maxInterned is how many strings an interner holds before it forgets them all, to keep
// names of deleted nodes from piling up. Strings in use stay shared.
const maxInterned = 1 << 14

func (n interner) intern(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := n[s]; ok {
		return known
	}
	if len(n) >= maxInterned {
		clear(n)
	}
	n[s] = s
	return s
}

// internSlice interns the strings of a slice that other slices have as well.
func (n interner) internSlice(s *model.EndpointSlice) {
	s.Service.Namespace = s.Name.Namespace
	for i := range s.Ports {
		s.Ports[i].Name = n.intern(s.Ports[i].Name)
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		e.Node = n.intern(e.Node)
		e.ZoneHints = model.NameSet(n.intern(string(e.ZoneHints)))
		e.NodeHints = model.NameSet(n.intern(string(e.NodeHints)))
	}
}
