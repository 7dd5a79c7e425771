package apitest

import (
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// serveList responds with a list or a page of one. Pages are of the current objects; a
// test must not change those between pages.
func (s *Server) serveList(w http.ResponseWriter, r *http.Request, resource string, q query) {
	s.mu.Lock()
	var items []runtime.Object
	for _, o := range s.sorted(resource) {
		if q.selects(o) {
			items = append(items, o)
		}
	}
	list, revision := newList(resource), s.revision
	s.mu.Unlock()

	items = items[min(q.continued, len(items)):]
	list.SetResourceVersion(format(revision))
	if q.limit > 0 && len(items) > q.limit {
		items = items[:q.limit]
		list.SetContinue(strconv.Itoa(q.continued + q.limit))
	}
	if err := meta.SetList(list, items); err != nil {
		panic("apitest: " + err.Error())
	}
	e := encoderFor(r)
	w.Header().Set("Content-Type", e.MediaType)
	_ = e.object(w, list)
}

// newList returns an empty list of the resource's kind.
func newList(resource string) interface {
	runtime.Object
	metav1.ListInterface
} {
	switch resource {
	case "services":
		return &corev1.ServiceList{}
	case "endpointslices":
		return &discoveryv1.EndpointSliceList{}
	case "servicecidrs":
		return &networkingv1.ServiceCIDRList{}
	case "nodes":
		return &corev1.NodeList{}
	}
	panic("apitest: no resource " + resource)
}
