package apitest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	stdsync "sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// An Object is an API object.
type Object interface {
	runtime.Object
	metav1.Object
}

// A Server is an API server; see [New].
type Server struct {
	mu         stdsync.Mutex
	revision   int64
	oldest     int64 // the first revision in history
	objects    map[string]Object
	history    []change
	changed    chan struct{} // closed by the next change
	endWatches chan struct{} // closed when watches are ended
	faults     faults
	requests   []Request
	events     []eventsv1.Event
}

// A change is an object before and after it, nil if it did not exist.
type change struct {
	revision      int64
	resource      string
	before, after Object
}

// A Request is one that the server received.
type Request struct {
	Resource, Accept string
	Query            map[string][]string
}

// New returns a server without objects.
func New() *Server {
	return &Server{
		revision: 1, objects: map[string]Object{},
		changed: make(chan struct{}), endWatches: make(chan struct{}),
		faults: faults{status: map[string]int{}},
	}
}

// kinds are the kinds of objects by resource.
var kinds = map[string]schema.GroupVersionKind{
	"services":       corev1.SchemeGroupVersion.WithKind("Service"),
	"endpointslices": discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
	"servicecidrs":   networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"),
	"nodes":          corev1.SchemeGroupVersion.WithKind("Node"),
}

// newObject returns an empty object of a kind.
func newObject(kind schema.GroupVersionKind) runtime.Object {
	o, err := scheme.Scheme.New(kind)
	if err != nil {
		panic("apitest: " + err.Error())
	}
	return o
}

// resourceOf returns the name of the object's resource in paths.
func resourceOf(o Object) string {
	kind := reflect.TypeOf(o).Elem().Name()
	return strings.ToLower(kind) + "s"
}

func keyOf(o Object) string {
	return resourceOf(o) + "/" + o.GetNamespace() + "/" + o.GetName()
}

// Put creates or replaces objects. Objects without a UID get one, or keep theirs.
func (s *Server) Put(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		o = o.DeepCopyObject().(Object)
		before := s.objects[keyOf(o)]
		s.revision++
		o.SetResourceVersion(format(s.revision))
		switch {
		case o.GetUID() != "":
		case before != nil:
			o.SetUID(before.GetUID())
		default:
			o.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", s.revision)))
		}
		s.objects[keyOf(o)] = o
		s.record(change{s.revision, resourceOf(o), before, o})
	}
}

// Delete deletes objects; it ignores those that do not exist.
func (s *Server) Delete(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		before := s.objects[keyOf(o)]
		if before == nil {
			continue
		}
		s.revision++
		delete(s.objects, keyOf(o))
		s.record(change{s.revision, resourceOf(o), before, nil})
	}
}

// bookmarks is the resource of a change that only sends bookmarks.
const bookmarks = "bookmarks"

// SendBookmarks sends a bookmark to each watch, as if an object of another resource had
// changed since the last event.
func (s *Server) SendBookmarks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.record(change{revision: s.revision, resource: bookmarks})
}

// record adds a change to the history and wakes watches.
func (s *Server) record(c change) {
	s.history = append(s.history, c)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Revision returns the resource version of the last change.
func (s *Server) Revision() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return format(s.revision)
}

// sorted returns the objects of a resource by name.
func (s *Server) sorted(resource string) []Object {
	var out []Object
	for _, o := range s.objects {
		if resourceOf(o) == resource {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b Object) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return out
}

// Requests returns all requests that the server received.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Events returns the events that were created, with their latest patches.
func (s *Server) Events() []eventsv1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}
