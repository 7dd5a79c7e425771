package passivehealth

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	stdsync "sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/listen/listentest"
)

// A world is a network with its connection tracking, in the time of a test.
type world struct {
	t        *testing.T
	mu       stdsync.Mutex // protects the rest; a test holds it unless it waits
	tracker  *Tracker
	entries  []conntrack.Entry
	counter  uint64
	reads    int // of connection tracking, each of which takes readCost
	polls    int // of the counter, or whether the table is full
	readCost time.Duration
	full     bool
	failure  error // of reads
	log      listentest.LogBuffer

	dead     map[netip.Addr]bool              // these answer nothing
	refuses  map[endpoint]bool                // these answer neither connections nor questions at this port
	mute     map[netip.Addr]bool              // a policy drops questions to these
	denied   map[netip.Addr]bool              // questions to these cannot be asked
	slow     time.Duration                    // answers take so long
	nodeOf   map[netip.Addr]string            // of endpoints
	nodes    map[string]netip.AddrPort        // the kubelets
	asked    map[netip.AddrPort]int           // questions
	events   []string                         // reasons
	received map[model.Match][]netip.AddrPort // what the tracker sent last
	changes  int                              // received
}

// here is the node of the tracker.
const here = "here"

// run runs a test in a bubble, in which nothing takes time but waiting.
func run(t *testing.T, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, dead: map[netip.Addr]bool{}, refuses: map[endpoint]bool{}, mute: map[netip.Addr]bool{},
			denied: map[netip.Addr]bool{}, nodeOf: map[netip.Addr]string{}, nodes: map[string]netip.AddrPort{}, asked: map[netip.AddrPort]int{},
			received: map[model.Match][]netip.AddrPort{},
		}
		unresponsive := make(chan []model.UnresponsiveEndpoints)
		w.tracker = New(Config{
			NodeName: here, Tracking: w, Counter: w, Ask: w.ask, EndpointsByNode: w.endpointsByNode, Kubelet: w.kubelet,
			Unresponsive: unresponsive, Recorder: w, Log: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &w.log), nil)),
		})
		w.tracker.cpuTime = func() time.Duration { defer w.lock()(); return time.Duration(w.reads) * w.readCost }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.tracker.Run(ctx) }()
		go func() {
			for {
				select {
				case all := <-unresponsive:
					w.receive(all)
				case <-ctx.Done():
					return
				}
			}
		}()
		w.mu.Lock()
		test(w)
		w.mu.Unlock()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// lock locks until the returned function is called.
func (w *world) lock() (unlock func()) { w.mu.Lock(); return w.mu.Unlock }

func (w *world) receive(all []model.UnresponsiveEndpoints) {
	defer w.lock()()
	for _, u := range all {
		w.received[u.Key] = u.Endpoints
		w.changes++
	}
}

// each calls fn for the entries that match.
func (w *world) each(fn func(conntrack.Entry), match func(conntrack.Entry) bool) error {
	defer w.lock()()
	w.reads++
	for _, e := range w.entries {
		if match(e) {
			fn(e)
		}
	}
	return w.failure
}

func (w *world) EachUnanswered(begin func(), fn func(conntrack.Entry)) error {
	begin()
	return w.each(fn, func(e conntrack.Entry) bool { return !e.Replied })
}

func (w *world) EachAnswered(by netip.Addr, begin func(), fn func(conntrack.Entry)) error {
	begin()
	return w.each(fn, func(e conntrack.Entry) bool {
		return e.Replied && (!by.IsValid() || e.Reply.Addr() == by)
	})
}

func (w *world) IsFull() (bool, error) { defer w.lock()(); w.polls++; return w.full, nil }

func (w *world) Unanswered() (uint64, error) { defer w.lock()(); w.polls++; return w.counter, nil }

func (w *world) Warn(_ sync.Object, reason, _ string) {
	defer w.lock()()
	w.events = append(w.events, reason)
}

// ask answers a question as the network does.
func (w *world) ask(ctx context.Context, to netip.AddrPort, wait time.Duration) error {
	answer, denied := w.answerTime(to)
	if denied {
		return unix.EPERM
	}
	select {
	case <-time.After(min(wait, answer)):
	case <-ctx.Done():
		return ctx.Err()
	}
	if answer > wait {
		return context.DeadlineExceeded
	}
	return nil
}

// answerTime returns how long an answer to a question takes, or that it cannot be asked, and
// counts the question.
func (w *world) answerTime(to netip.AddrPort) (took time.Duration, denied bool) {
	defer w.lock()()
	w.asked[to]++
	if w.dead[to.Addr()] || w.mute[to.Addr()] || w.refuses[endpoint{model.TCP, to}] {
		took = time.Hour
	}
	return max(took, time.Millisecond+w.slow), w.denied[to.Addr()]
}

func (w *world) endpointsByNode(_ context.Context, list []netip.Addr) (map[string][]netip.Addr, error) {
	defer w.lock()()
	out := map[string][]netip.Addr{}
	for a, name := range w.nodeOf {
		if slices.ContainsFunc(list, func(b netip.Addr) bool { return w.nodeOf[b] == name }) {
			out[name] = append(out[name], a)
		}
	}
	for _, all := range out {
		slices.SortFunc(all, netip.Addr.Compare)
	}
	return out, nil
}

func (w *world) kubelet(_ context.Context, name string) ([]netip.AddrPort, error) {
	defer w.lock()()
	to, known := w.nodes[name]
	if !known {
		return nil, errors.New("unknown node")
	}
	return []netip.AddrPort{to}, nil
}

// connect opens a connection to an endpoint. If it is not answered within a second, its first
// packet is retransmitted, over other protocols than UDP.
func (w *world) connect(e endpoint) {
	i := len(w.entries)
	w.entries = append(w.entries, conntrack.Entry{
		Protocol: e.protocol, Reply: e.addr, ID: uint32(i + 1),
	})
	if w.dead[e.addr.Addr()] || w.refuses[e] {
		if e.protocol != model.UDP {
			time.AfterFunc(time.Second, func() { defer w.lock()(); w.counter++ })
		}
		return
	}
	time.AfterFunc(time.Millisecond+w.slow, func() { defer w.lock()(); w.entries[i].Replied = true })
}

// forge adds connections to an endpoint that it never sees, as from an address that gets no
// answers.
func (w *world) forge(e endpoint) {
	w.entries = append(w.entries, conntrack.Entry{
		Protocol: e.protocol, Reply: e.addr, ID: uint32(len(w.entries) + 1),
	})
	w.counter++
}

// A service is one of a test.
type service struct {
	key       model.Match
	name      model.ServicePortName
	endpoints []endpoint
	mode      model.PassiveChecks
}

// serve commits a Service with three endpoints, on nodes n0, n1 and n2.
func (w *world) serve(f model.Family, p model.Protocol, namespace string, number int) *service {
	prefix := [...]string{model.IPv4: "10.%d.%d.%d", model.IPv6: "fd00::%d:%d:%d"}[f]
	s := &service{
		key:  model.Match{Family: f, Protocol: p, Port: 80, Addr: address(prefix, 96, number, 1)},
		mode: model.PassiveChecksAvoid,
		name: model.ServicePortName{ServiceName: model.ServiceName{Namespace: namespace, Name: "web" + string(rune('a'+number%26))}},
	}
	for i := range 3 {
		a := address(prefix, 1+i, number, 1)
		s.endpoints = append(s.endpoints, endpoint{p, netip.AddrPortFrom(a, 8080)})
		w.nodeOf[a] = "n" + string(rune('0'+i))
		w.nodes[w.nodeOf[a]] = netip.AddrPortFrom(address(prefix, 200, i, 1), 10250)
	}
	w.commit(s)
	return s
}

// commit lets the tracker know the Service as the loop commits it, and waits until it does.
func (w *world) commit(s *service) {
	w.follow(s)
	w.wait(0)
}

func (w *world) follow(s *service) { w.tracker.Follow(s.committed()) }

func (s *service) committed() sync.Committed {
	pool := &model.Pool{Key: s.key, PassiveChecks: s.mode}
	for _, e := range s.endpoints {
		pool.Cluster = append(pool.Cluster, e.addr)
	}
	slices.SortFunc(pool.Cluster, netip.AddrPort.Compare)
	return sync.Committed{Set: []model.Frontend{{Match: s.key, Service: s.name, Pool: pool}}}
}

// wait lets time pass.
func (w *world) wait(d time.Duration) {
	w.mu.Unlock()
	<-time.After(d)
	synctest.Wait()
	w.mu.Lock()
}

// report returns the tracker's report.
func (w *world) report() Report {
	w.t.Helper()
	w.mu.Unlock()
	defer w.mu.Lock()
	r, err := w.tracker.Report(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// every calls fn after each period of a time until it returns false, and returns how long
// that took.
func (w *world) every(period, most time.Duration, fn func() bool) time.Duration {
	start := time.Now()
	for fn() && time.Since(start) < most {
		w.wait(period)
	}
	return time.Since(start)
}
