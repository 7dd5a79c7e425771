package cluster

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"kube-vmap/sync"
)

// store is what a reflector feeds. It makes events of what is news and keeps only
// what it takes to know that. It belongs to the reflector's goroutine.
type store struct {
	kind     string // of the objects
	convert  convertFunc
	event    eventFunc
	queue    *eventQueue
	onChange func()    // is called whenever something was told, if set
	since    time.Time // when the source began

	known    map[objectName]knownObject
	problems map[objectName]problem
	// listed is closed once the store is complete for the first time.
	listed chan struct{}
}

// knownObject is what a store knows of an object that was told.
type knownObject struct {
	content   uint64
	uid       uint64 // a hash of the object's UID
	triggered int64  // the trigger last seen, in nanoseconds since the Unix epoch
}

// problem is what was told to be wrong with an object.
type problem struct{ uid, text string }

// eventFunc makes an event of an item's value, where nil means that the object is
// gone. The event may be nil, too.
type eventFunc func(n objectName, value any) sync.Event

var (
	_ cache.ReflectorStore    = (*store)(nil)
	_ cache.TransformingStore = (*store)(nil)
)

func newStore(kind string, r convertFunc, say eventFunc, to *eventQueue) *store {
	return &store{
		kind: kind, convert: r, event: say, queue: to, since: time.Now(),
		known: map[objectName]knownObject{}, problems: map[objectName]problem{}, listed: make(chan struct{}),
	}
}

// Transformer implements [cache.TransformingStore]: while a list is streamed, the
// reflector keeps items.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.convert(obj) }
}

// Add implements [cache.ReflectorStore].
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update implements [cache.ReflectorStore].
func (s *store) Update(obj any) error {
	it, err := s.convert(obj)
	if err != nil {
		return err
	}
	before := s.known[it.objectName]
	delete(s.known, it.objectName)
	s.send(s.change(nil, before, it))
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
	if _, told := s.known[n]; told {
		delete(s.known, n)
		events = appendEvent(events, s.event(n, nil))
	}
	s.send(s.updateProblem(events, n, problem{}, nil))
	return nil
}

// Replace implements [cache.ReflectorStore]. All that a list changes is put
// together.
func (s *store) Replace(list []any, _ string) error {
	items, err := s.convertAll(list)
	if err != nil {
		return err
	}
	gone, settled := s.known, maps.Clone(s.problems)
	s.known = make(map[objectName]knownObject, len(items))
	events := make([]sync.Event, 0, s.eventCapacity(len(items)))
	for _, it := range items {
		before := gone[it.objectName]
		delete(gone, it.objectName)
		delete(settled, it.objectName)
		events = s.change(events, before, it)
	}
	for n := range gone {
		events = appendEvent(events, s.event(n, nil))
	}
	for n := range settled {
		events = s.updateProblem(events, n, problem{}, nil)
	}
	s.send(events)
	s.markListed()
	return nil
}

// send tells of events.
func (s *store) send(events []sync.Event) {
	s.queue.put(events)
	if s.onChange != nil {
		s.onChange()
	}
}

// Resync implements [cache.ReflectorStore]. There is nothing to say again.
func (s *store) Resync() error { return nil }

// convertAll makes items of a list. A streamed one has them already.
func (s *store) convertAll(list []any) ([]*convertedObject, error) {
	items := make([]*convertedObject, len(list))
	for i, obj := range list {
		var err error
		if items[i], err = s.convert(obj); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// eventCapacity is how many events a list of that length will make.
func (s *store) eventCapacity(length int) int {
	if s.isListed() {
		return 0
	}
	return length
}

// markListed says that what was told so far is complete.
func (s *store) markListed() {
	if !s.isListed() {
		close(s.listed)
	}
}

func (s *store) isListed() bool {
	select {
	case <-s.listed:
		return true
	default:
		return false
	}
}

// change notes what an item means now and appends the events of what changed.
func (s *store) change(events []sync.Event, before knownObject, it *convertedObject) []sync.Event {
	identity := hashUID(it.uid)
	same := identity == before.uid
	// What an object said before is not served once it says something else, even if
	// nothing of that can be used: the API server may have given its addresses to
	// others. And if the name is another object's now, the one that had it is gone.
	if before.content != 0 && (it.value == nil || !same && it.content != before.content) {
		events = appendEvent(events, s.event(it.objectName, nil))
	}
	if it.value != nil {
		s.remember(it.objectName, knownObject{it.content, identity, unixNano(it.triggered)})
		if it.content != before.content {
			events = appendEvent(events, s.withTrigger(s.event(it.objectName, it.value), before, it))
		}
	}
	return s.updateProblem(events, it.objectName, problem{uid: it.uid}, it.err)
}

// remember keeps what is known of an object that was told.
func (s *store) remember(n objectName, k knownObject) {
	if k.content != 0 {
		s.known[n] = k
	}
}

// withTrigger adds to the event of a slice when the change was triggered. What is in the
// first list happened before anybody could have told of it here; a trigger that
// was seen before is that of an earlier change; and one that is yet to come is
// from another clock, by which nothing can be measured.
func (s *store) withTrigger(e sync.Event, before knownObject, it *convertedObject) sync.Event {
	t := it.triggered
	slice, ok := e.(sync.SetSlice)
	if !ok || !s.isListed() || !t.After(s.since) || t.UnixNano() == before.triggered || t.After(time.Now()) {
		return e
	}
	slice.Triggered = t
	return slice
}

// updateProblem appends an event if what is wrong with the object is not what was told;
// nil is nothing.
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

// unixNano is t since the Unix epoch; zero for the zero time.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
