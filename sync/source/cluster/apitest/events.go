package apitest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// handleEvent creates an event, or patches the one of that name.
func (s *Server) handleEvent(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &eventsv1.Event{}
	if name == "" {
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, e); err != nil {
			refuse(w, r, apierrors.NewBadRequest(err.Error()))
			return
		}
		s.events = append(s.events, *e)
	} else if e = s.patchEvent(name, body); e == nil {
		refuse(w, r, apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, name))
		return
	}
	respond(w, r, http.StatusOK, e)
}

// patchEvent merges a patch into the event of that name, if it exists, and returns it.
func (s *Server) patchEvent(name string, patch []byte) *eventsv1.Event {
	i := slices.IndexFunc(s.events, func(e eventsv1.Event) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	if err := json.Unmarshal(patch, &s.events[i]); err != nil {
		panic("apitest: " + err.Error())
	}
	return &s.events[i]
}
