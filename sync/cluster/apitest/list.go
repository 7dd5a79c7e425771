package apitest

import (
	"net/http"
	"strconv"

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
	revision := s.revision
	s.mu.Unlock()

	list, metadata := newList(resource)
	items = items[min(q.continued, len(items)):]
	metadata.SetResourceVersion(format(revision))
	if q.limit > 0 && len(items) > q.limit {
		items = items[:q.limit]
		metadata.SetContinue(strconv.Itoa(q.continued + q.limit))
	}
	if err := meta.SetList(list, items); err != nil {
		panic("apitest: " + err.Error())
	}
	e := encoderFor(r)
	w.Header().Set("Content-Type", e.MediaType)
	_ = e.object(w, list)
}

// newList returns an empty list of the resource's kind, and its metadata.
func newList(resource string) (runtime.Object, metav1.ListInterface) {
	kind := kinds[resource]
	kind.Kind += "List"
	list := newObject(kind)
	return list, list.(metav1.ListInterface)
}
