package apitest

import (
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// serveWatch streams changes until the connection or the requested time ends.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, resource string, q query) {
	s.mu.Lock()
	noStreams, cut := s.faults.noStreams, s.endWatches
	s.mu.Unlock()
	if q.initial() && noStreams {
		refuse(w, r, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", nil))
		return
	}
	stream := encoderFor(r).stream(w)
	w.WriteHeader(http.StatusOK)
	_ = stream.Flush()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	var over <-chan time.Time
	if q.TimeoutSeconds != nil {
		over = time.After(time.Duration(*q.TimeoutSeconds) * time.Second)
	}
	from, events := s.initialEvents(resource, q)
	for {
		if s.isUnresponsive() {
			<-r.Context().Done()
			return
		}
		for _, e := range events {
			if stream.send(e) != nil || e.Type == watch.Error {
				return
			}
		}
		_ = stream.Flush()
		var wait <-chan struct{}
		if events, from, wait = s.eventsSince(resource, q, from); len(events) > 0 {
			continue
		}
		select {
		case <-wait:
		case <-minute.C:
			events = []watch.Event{bookmark(resource, from, false)}
		case <-cut:
			return
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// initialEvents returns the first events of a watch, and the revision to continue from.
func (s *Server) initialEvents(resource string, q query) (int64, []watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !q.initial() && q.revision != 0 {
		return q.revision, nil
	}
	var events []watch.Event
	for _, o := range s.sorted(resource) {
		if q.selects(o) {
			events = append(events, watch.Event{Type: watch.Added, Object: o})
		}
	}
	if q.initial() && !s.faults.noEnds {
		events = append(events, bookmark(resource, s.revision, true))
	}
	return s.revision, events
}

// eventsSince returns the events after a revision and the revision to continue from. The
// channel is closed by the next change.
func (s *Server) eventsSince(resource string, q query, revision int64) ([]watch.Event, int64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision < s.oldest {
		expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, s.oldest))
		return []watch.Event{{Type: watch.Error, Object: &expired.ErrStatus}}, revision, nil
	}
	var events []watch.Event
	for _, c := range s.history {
		switch {
		case c.revision <= revision:
		case c.resource == resource:
			events = append(events, q.event(c)...)
		case c.resource == bookmarks:
			events = append(events, bookmark(resource, c.revision, false))
		}
	}
	return events, s.revision, s.changed
}

// event returns the event of a change for that query, if any.
func (q query) event(c change) []watch.Event {
	was, is := q.selects(c.before), q.selects(c.after)
	switch {
	case is && was:
		return []watch.Event{{Type: watch.Modified, Object: c.after}}
	case is:
		return []watch.Event{{Type: watch.Added, Object: c.after}}
	case was:
		last := c.before.DeepCopyObject().(Object)
		last.SetResourceVersion(format(c.revision))
		return []watch.Event{{Type: watch.Deleted, Object: last}}
	}
	return nil
}

// bookmark returns the event that everything up to a revision was sent.
func bookmark(resource string, revision int64, endsList bool) watch.Event {
	o := newObject(kinds[resource]).(Object)
	o.SetResourceVersion(format(revision))
	if endsList {
		o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return watch.Event{Type: watch.Bookmark, Object: o}
}
