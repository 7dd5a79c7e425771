package cluster

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"kube-vmap/sync"
)

// A store receives the objects of one kind from a reflector and queues an event for each. It keeps
// only their names, to see which a list no longer has; the model compares them. It belongs to the
// reflector's goroutine.
type store struct {
	kind     string
	convert  convertFunc
	event    eventFunc
	queue    *eventQueue
	onChange func() // called after events were queued; may be nil
	heard    func(bookmark bool)
	since    time.Time // when the source started
	// ownSubjects is set if each event is about one of the objects, not about all of them.
	ownSubjects bool

	// known are the objects that it sent, with the last trigger of each, in nanoseconds since the
	// Unix epoch.
	known    map[objectName]int64
	problems map[objectName]problem
	listed   chan struct{} // closed after the first complete list
}

// A problem is an error that was sent about an object.
type problem struct{ uid, text string }

var (
	_ cache.ReflectorStore    = (*store)(nil)
	_ cache.TransformingStore = (*store)(nil)
)

func newStore(kind string, convert convertFunc, event eventFunc, queue *eventQueue) *store {
	return &store{
		kind: kind, convert: convert, event: event, queue: queue, since: time.Now(),
		known: map[objectName]int64{}, problems: map[objectName]problem{}, listed: make(chan struct{}),
		heard: func(bool) {},
	}
}

// Transformer implements [cache.TransformingStore]: the reflector keeps converted
// objects while a list is streamed.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.convert(obj) }
}

// Add implements [cache.ReflectorStore].
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update implements [cache.ReflectorStore].
func (s *store) Update(obj any) error {
	converted, err := s.convert(obj)
	if err != nil {
		return err
	}
	s.send(s.change(nil, s.known, converted))
	return nil
}

// Delete implements [cache.ReflectorStore].
func (s *store) Delete(obj any) error {
	o, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	n := objectName{o.GetNamespace(), o.GetName()}
	var events []sync.Event
	if _, known := s.known[n]; known {
		delete(s.known, n)
		events = appendEvent(events, s.event(n, nil))
	}
	s.send(s.updateProblem(events, n, problem{}, nil))
	return nil
}

// Replace implements [cache.ReflectorStore]. All changes of a list are queued together.
func (s *store) Replace(list []any, _ string) error {
	objects, err := s.convertAll(list)
	if err != nil {
		return err
	}
	removed, solved := s.known, maps.Clone(s.problems)
	s.known = make(map[objectName]int64, len(objects))
	events := make([]sync.Event, 0, len(objects))
	for _, converted := range objects {
		delete(solved, converted.objectName)
		events = s.change(events, removed, converted)
	}
	for n := range removed {
		events = appendEvent(events, s.event(n, nil))
	}
	for n := range solved {
		events = s.updateProblem(events, n, problem{}, nil)
	}
	s.send(events)
	s.markListed()
	return nil
}

// Bookmark implements [cache.ReflectorBookmarkStore].
func (s *store) Bookmark(string) error {
	s.heard(true)
	return nil
}

func (s *store) send(events []sync.Event) {
	s.heard(false)
	if s.ownSubjects && !isClosed(s.listed) {
		s.queue.putFirst(events)
	} else {
		s.queue.put(events)
	}
	if s.onChange != nil {
		s.onChange()
	}
}

// Resync implements [cache.ReflectorStore]. The loop keeps its own state, so there is
// nothing to send again.
func (s *store) Resync() error { return nil }

// convertAll converts a list. Objects of a streamed list are converted already.
func (s *store) convertAll(list []any) ([]*convertedObject, error) {
	out := make([]*convertedObject, len(list))
	for i, obj := range list {
		var err error
		if out[i], err = s.convert(obj); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// markListed records that everything known so far is complete.
func (s *store) markListed() { closeOnce(s.listed) }

// change records an object, which it removes from those known before, and appends its events.
func (s *store) change(events []sync.Event, known map[objectName]int64, converted *convertedObject) []sync.Event {
	triggered, sent := known[converted.objectName]
	delete(known, converted.objectName)
	if converted.value != nil {
		s.known[converted.objectName] = converted.triggered.UnixNano()
		event := s.event(converted.objectName, converted.value)
		events = appendEvent(events, s.withTrigger(event, triggered, converted.triggered))
	} else if sent {
		// Nothing of an object stays that has become unusable, because the API server may have
		// given its addresses to others.
		events = appendEvent(events, s.event(converted.objectName, nil))
	}
	return s.updateProblem(events, converted.objectName, problem{uid: converted.uid}, converted.err)
}

// withTrigger adds the time of its trigger to the event of a slice. It ignores triggers
// from before the source started or in the first list, which happened before this
// process could see them; the one that was seen before, which belongs to an earlier
// change; and those in the future, which are from a clock that is not comparable.
func (s *store) withTrigger(e sync.Event, before int64, t time.Time) sync.Event {
	slice, ok := e.(sync.SetSlice)
	if !ok || !isClosed(s.listed) || !t.After(s.since) || t.UnixNano() == before || t.After(time.Now()) {
		return e
	}
	slice.Triggered = t
	return slice
}

// updateProblem appends events if the object's problem, or nil, differs from the one that
// was sent.
func (s *store) updateProblem(events []sync.Event, n objectName, now problem, err error) []sync.Event {
	before, had := s.problems[n]
	if err != nil {
		now.text = err.Error()
	}
	if had && (err == nil || before.uid != now.uid) {
		events = append(events, sync.SetProblem{Object: s.object(n, before.uid)})
		delete(s.problems, n)
	}
	if err != nil && before != now {
		events = append(events, sync.SetProblem{Object: s.object(n, now.uid), Err: err})
		s.problems[n] = now
	}
	return events
}

func (s *store) object(n objectName, uid string) sync.Object {
	return sync.Object{Kind: s.kind, Namespace: n.namespace, Name: n.name, UID: uid}
}

func appendEvent(events []sync.Event, e sync.Event) []sync.Event {
	if e == nil {
		return events
	}
	return append(events, e)
}
