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
	kind   string // of the objects
	reduce reducer
	say    teller
	to     *pending
	told   func()    // is called whenever something was told, if set
	since  time.Time // when the source began

	known    map[name]known
	problems map[name]problem
	// listed is closed once the store is complete for the first time.
	listed chan struct{}
}

// known is what a store knows of an object that was told.
type known struct {
	meaning   uint64
	identity  uint64 // a hash of the object's UID
	triggered int64  // the trigger last seen, in nanoseconds since the Unix epoch
}

// problem is what was told to be wrong with an object.
type problem struct{ uid, text string }

// teller makes an event of an item's value, where nil means that the object is
// gone. The event may be nil, too.
type teller func(n name, value any) sync.Event

var (
	_ cache.ReflectorStore    = (*store)(nil)
	_ cache.TransformingStore = (*store)(nil)
)

func newStore(kind string, r reducer, say teller, to *pending) *store {
	return &store{
		kind: kind, reduce: r, say: say, to: to, since: time.Now(),
		known: map[name]known{}, problems: map[name]problem{}, listed: make(chan struct{}),
	}
}

// Transformer implements [cache.TransformingStore]: while a list is streamed, the
// reflector keeps items.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.reduce(obj) }
}

// Add implements [cache.ReflectorStore].
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update implements [cache.ReflectorStore].
func (s *store) Update(obj any) error {
	it, err := s.reduce(obj)
	if err != nil {
		return err
	}
	before := s.known[it.name]
	delete(s.known, it.name)
	s.put(s.change(nil, before, it))
	return nil
}

// Delete implements [cache.ReflectorStore].
func (s *store) Delete(obj any) error {
	o, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	n := name{o.GetNamespace(), o.GetName()}
	var events []sync.Event
	if _, told := s.known[n]; told {
		delete(s.known, n)
		events = appendEvent(events, s.say(n, nil))
	}
	s.put(s.settle(events, n, problem{}, nil))
	return nil
}

// Replace implements [cache.ReflectorStore]. All that a list changes is put
// together.
func (s *store) Replace(list []any, _ string) error {
	items, err := s.reduceAll(list)
	if err != nil {
		return err
	}
	gone, settled := s.known, maps.Clone(s.problems)
	s.known = make(map[name]known, len(items))
	events := make([]sync.Event, 0, s.expected(len(items)))
	for _, it := range items {
		before := gone[it.name]
		delete(gone, it.name)
		delete(settled, it.name)
		events = s.change(events, before, it)
	}
	for n := range gone {
		events = appendEvent(events, s.say(n, nil))
	}
	for n := range settled {
		events = s.settle(events, n, problem{}, nil)
	}
	s.put(events)
	s.complete()
	return nil
}

// put tells of events.
func (s *store) put(events []sync.Event) {
	s.to.put(events)
	if s.told != nil {
		s.told()
	}
}

// Resync implements [cache.ReflectorStore]. There is nothing to say again.
func (s *store) Resync() error { return nil }

// reduceAll makes items of a list. A streamed one has them already.
func (s *store) reduceAll(list []any) ([]*item, error) {
	items := make([]*item, len(list))
	for i, obj := range list {
		var err error
		if items[i], err = s.reduce(obj); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// expected is how many events a list of that length will make.
func (s *store) expected(length int) int {
	if s.isListed() {
		return 0
	}
	return length
}

// complete says that what was told so far is complete.
func (s *store) complete() {
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
func (s *store) change(events []sync.Event, before known, it *item) []sync.Event {
	identity := identityOf(it.uid)
	same := identity == before.identity
	// What an object said before is not served once it says something else, even if
	// nothing of that can be used: the API server may have given its addresses to
	// others. And if the name is another object's now, the one that had it is gone.
	if before.meaning != 0 && (it.value == nil || !same && it.meaning != before.meaning) {
		events = appendEvent(events, s.say(it.name, nil))
	}
	if it.value != nil {
		s.note(it.name, known{it.meaning, identity, nanoseconds(it.triggered)})
		if it.meaning != before.meaning {
			events = appendEvent(events, s.timed(s.say(it.name, it.value), before, it))
		}
	}
	return s.settle(events, it.name, problem{uid: it.uid}, it.err)
}

// note keeps what is known of an object that was told.
func (s *store) note(n name, k known) {
	if k.meaning != 0 {
		s.known[n] = k
	}
}

// timed adds to the event of a slice when the change was triggered. What is in the
// first list happened before anybody could have told of it here; a trigger that
// was seen before is that of an earlier change; and one that is yet to come is
// from another clock, by which nothing can be measured.
func (s *store) timed(e sync.Event, before known, it *item) sync.Event {
	t := it.triggered
	slice, ok := e.(sync.SetSlice)
	if !ok || !s.isListed() || !t.After(s.since) || t.UnixNano() == before.triggered || t.After(time.Now()) {
		return e
	}
	slice.Triggered = t
	return slice
}

// settle appends an event if what is wrong with the object is not what was told;
// nil is nothing.
func (s *store) settle(events []sync.Event, n name, now problem, err error) []sync.Event {
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

func (s *store) object(n name, uid string) sync.Object {
	return sync.Object{Kind: s.kind, Namespace: n.namespace, Name: n.name, UID: uid}
}

func appendEvent(events []sync.Event, e sync.Event) []sync.Event {
	if e == nil {
		return events
	}
	return append(events, e)
}

// nanoseconds is t since the Unix epoch; zero for the zero time.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
