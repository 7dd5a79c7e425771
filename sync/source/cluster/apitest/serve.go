package apitest

import (
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, rest := split(r.URL.Path)
	s.mu.Lock()
	s.requests = append(s.requests, Request{resource, r.Header.Get("Accept"), r.URL.Query()})
	code := s.faults.status[resource]
	s.mu.Unlock()
	q, err := newQuery(r.URL.Query())
	switch {
	case code == NoResponse:
		<-r.Context().Done()
	case code != 0:
		refuse(w, r, apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{Resource: resource}, "", "as configured", 0, false))
	case err != nil:
		refuse(w, r, apierrors.NewBadRequest(err.Error()))
	case resource == "events":
		s.handleEvent(w, r, rest)
	case q.Watch:
		s.serveWatch(w, r, resource, q)
	default:
		s.serveList(w, r, resource, q)
	}
}

// split returns the resource in a path such as
// /api/v1/namespaces/NAMESPACE/RESOURCE/NAME, and the rest of the path.
func split(path string) (resource, rest string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[2:]
	} else {
		parts = parts[3:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	return parts[0], strings.Join(parts[1:], "/")
}

// serveList responds with a list.
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

	kind := kinds[resource]
	kind.Kind += "List"
	list := newObject(kind)
	list.(metav1.ListInterface).SetResourceVersion(format(revision))
	if err := meta.SetList(list, items); err != nil {
		panic("apitest: " + err.Error())
	}
	respond(w, r, http.StatusOK, list)
}

// refuse responds with an error.
func refuse(w http.ResponseWriter, r *http.Request, err *apierrors.StatusError) {
	respond(w, r, int(err.ErrStatus.Code), &err.ErrStatus)
}

// format returns a revision as text.
func format(revision int64) string { return strconv.FormatInt(revision, 10) }
