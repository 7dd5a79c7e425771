package apitest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, rest := split(r.URL.Path)
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Method, resource, r.Header.Get("Accept"), r.URL.Query()})
	code := s.faults.status[resource]
	s.mu.Unlock()
	q, err := newQuery(r.URL.Query())
	switch {
	case code == NoResponse:
		<-r.Context().Done()
	case code != 0:
		s.refuse(w, r, apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{Resource: resource}, "", "as configured", 0, false))
	case err != nil:
		s.refuse(w, r, apierrors.NewBadRequest(err.Error()))
	case resource == "events":
		s.handleEvent(w, r, rest)
	case q.watch:
		s.serveWatch(w, r, resource, q)
	default:
		s.serveList(w, r, resource, q)
	}
}

// split returns the resource in a path such as
// /api/v1/namespaces/NAMESPACE/RESOURCE/NAME, and what follows.
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

// refuse responds with an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err *apierrors.StatusError) {
	e := encoderFor(r)
	w.Header().Set("Content-Type", e.MediaType)
	w.WriteHeader(int(err.ErrStatus.Code))
	_ = e.object(w, &err.ErrStatus)
}

// expired returns the error for a watch from a revision that is not in the history.
func expired(revision, oldest int64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, oldest))
}

// streamedListsUnsupported returns the error of an older server for streamed lists.
func streamedListsUnsupported() *apierrors.StatusError {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", nil)
}

// format returns a revision as text.
func format(revision int64) string { return strconv.FormatInt(revision, 10) }
