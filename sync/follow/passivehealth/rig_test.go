package passivehealth

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	stdsync "sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen/listentest"
)

// step is the resolution of the time of a test.
const step = 50 * time.Millisecond

// A world is a network with its connection tracking, in the time of a test.
type world struct {
	t        *testing.T
	family   model.Family
	protocol model.Protocol // of Services that name none
	random   *rand.Rand

	mu      stdsync.Mutex // protects the rest; a test holds it unless it waits
	tracker *Tracker
	entries []*entry
	lastID  uint32
	// counts are the kernel's counters of connections, unless they are uncounted.
	counts    map[model.Match]uint64
	uncounted bool
	counter   uint64
	// reads counts readings of connection tracking. Each takes readCost, and costOfEntry for each
	// entry that it has. cpu is the sum.
	reads                 int
	readCost, costOfEntry time.Duration
	answeredCost          time.Duration // in addition, of those with a reply
	cpu                   time.Duration
	polls                 int // of the counter, or whether the table is full
	full                  bool
	failure               error // of readings
	log                   listentest.LogBuffer

	pods     map[netip.Addr]*pod
	services map[string]*service
	clients  map[string]*client
	probes   int
	events   []string                         // reasons
	received map[model.Match][]netip.AddrPort // what the tracker sent last
	changes  int                              // received
	ever     map[netip.AddrPort]bool          // ever received
}

type entry struct {
	conntrack.Entry
	expires time.Time
}

// A pod is one or more endpoints at an address.
type pod struct {
	dead       bool // it gets no packets
	prohibits  bool // a policy replies to probes that they are prohibited
	noProbes   bool // a policy drops probes
	permits    []string
	latency    time.Duration
	lossyUntil time.Time // probes are lost until then
}

// A client opens connections to a Service.
type client struct {
	addr    netip.Addr
	service *service
	every   time.Duration
	next    time.Time
	lowTTL  bool // its packets reach no endpoint
	opened  int
	failed  int
	last    time.Time // when the last failed one began
}

// A service is one of a test.
type service struct {
	key       model.Match
	name      model.ServicePortName
	number    int
	endpoints []endpoint
	local     []netip.Addr
	mode      model.PassiveChecks
}

// run runs a test in a bubble, where only waiting takes time.
func run(t *testing.T, f model.Family, p model.Protocol, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, family: f, protocol: p, random: rand.New(rand.NewPCG(1, 2)),
			counts: map[model.Match]uint64{},
			pods:   map[netip.Addr]*pod{}, services: map[string]*service{}, clients: map[string]*client{},
			received: map[model.Match][]netip.AddrPort{}, ever: map[netip.AddrPort]bool{},
			readCost: 100 * time.Microsecond, costOfEntry: 5 * time.Microsecond,
		}
		unresponsive := make(chan []model.Overlay)
		w.tracker = New(Config{
			NodeName: "here", Tracking: w, Counter: w, Probe: w.probe,
			Overlays: unresponsive, Recorder: w, Log: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &w.log), nil)),
		})
		w.tracker.cpuTime = func() time.Duration { defer w.lock()(); return w.cpu }
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

// every runs a test for all families and protocols.
func every(t *testing.T, test func(*world)) {
	t.Helper()
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			t.Run(f.String()+"/"+p.String(), func(t *testing.T) { run(t, f, p, test) })
		}
	}
}

// lock locks until the returned function is called.
func (w *world) lock() (unlock func()) { w.mu.Lock(); return w.mu.Unlock }

func (w *world) receive(all []model.Overlay) {
	defer w.lock()()
	for _, o := range all {
		u := o.(model.UnresponsiveEndpoints)
		w.received[u.Key] = u.Endpoints
		w.changes++
		for _, e := range u.Endpoints {
			w.ever[e] = true
		}
	}
}

// each calls fn for the entries that match.
func (w *world) each(fn func(conntrack.Entry), match func(*entry) bool) error {
	defer w.lock()()
	now := time.Now()
	w.entries = slices.DeleteFunc(w.entries, func(e *entry) bool { return now.After(e.expires) })
	w.reads++
	w.cpu += w.readCost
	for _, e := range w.entries {
		if match(e) {
			w.cpu += w.costOfEntry
			fn(e.Entry)
		}
	}
	return w.failure
}

func (w *world) EachUnanswered(f model.Family, p model.Protocol, begin func(), fn func(conntrack.Entry)) error {
	begin()
	return w.each(fn, func(e *entry) bool { return e.Family() == f && e.Protocol == p && !e.Replied })
}

func (w *world) EachAnswered(f model.Family, p model.Protocol, begin func(), fn func(conntrack.Entry)) error {
	begin()
	unlock := w.lock()
	w.cpu += w.answeredCost
	unlock()
	return w.each(fn, func(e *entry) bool { return e.Family() == f && e.Protocol == p && e.Replied })
}

func (w *world) IsFull() (bool, error) { defer w.lock()(); return w.full, w.failure }

func (w *world) Connections(f model.Family) (list []nft.ConnectionCount, err error) {
	defer w.lock()()
	for m, n := range w.counts {
		if m.Family == f && !w.uncounted {
			w.cpu += time.Microsecond
			list = append(list, nft.ConnectionCount{Destination: m, Connections: n})
		}
	}
	return list, nil
}

func (w *world) Unanswered() (uint64, error) { defer w.lock()(); w.polls++; return w.counter, nil }

func (w *world) Warn(_ sync.Object, reason, _ string) {
	defer w.lock()()
	w.events = append(w.events, reason)
}

// probe replies to a probe as the network does.
func (w *world) probe(ctx context.Context, to netip.AddrPort, wait time.Duration) error {
	after, prohibited := w.probeReply(to)
	if prohibited {
		return unix.EACCES
	}
	select {
	case <-time.After(min(wait, after)):
	case <-ctx.Done():
		return ctx.Err()
	}
	if after > wait {
		return context.DeadlineExceeded
	}
	return nil
}

func (w *world) probeReply(to netip.AddrPort) (after time.Duration, prohibited bool) {
	defer w.lock()()
	w.probes++
	p := w.pods[to.Addr()]
	if p.dead || p.noProbes || time.Now().Before(p.lossyUntil) {
		return time.Hour, p.prohibits
	}
	return time.Millisecond + p.latency, p.prohibits
}

// connect opens a connection to an endpoint of a client's Service. Without a reply within a
// second, its first packet is retransmitted, over other protocols than UDP.
func (w *world) connect(c *client, name string, e endpoint) {
	w.lastID++
	id, p, now := w.lastID, w.pods[e.addr.Addr()], time.Now()
	c.opened++
	reaches := !p.dead && !c.lowTTL && (p.permits == nil || slices.Contains(p.permits, name))
	life := 2 * time.Minute
	if e.protocol == model.UDP {
		life = 30 * time.Second
	}
	added := &entry{conntrack.Entry{
		Protocol: e.protocol, Client: netip.AddrPortFrom(c.addr, uint16(id)),
		Original: netip.AddrPortFrom(c.service.key.Addr, c.service.key.Port), Reply: e.addr, ID: id,
	}, now.Add(life)}
	w.entries = append(w.entries, added)
	w.counts[c.service.key]++
	if reaches {
		time.AfterFunc(time.Millisecond+p.latency, func() { defer w.lock()(); added.Replied = true })
		return
	}
	c.failed, c.last = c.failed+1, now
	if e.protocol != model.UDP {
		for _, after := range []time.Duration{time.Second, 3 * time.Second} {
			time.AfterFunc(after, func() { defer w.lock()(); w.counter++ })
		}
	}
}

// choose returns an endpoint of a Service that is not avoided, as package model does.
func (w *world) choose(s *service) endpoint {
	list := slices.Clone(s.endpoints)
	if s.mode == model.PassiveChecksAvoid {
		most := min(len(list)/2, len(list)-1)
		for _, a := range w.received[s.key][:min(most, len(w.received[s.key]))] {
			list = slices.DeleteFunc(list, func(e endpoint) bool { return e.addr == a })
		}
	}
	return list[w.random.IntN(len(list))]
}

func address(format string, parts ...any) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf(format, parts...))
}

// addr returns an address of the test's family: host of a subnet of its own for each number.
func (w *world) addr(subnet, host int) netip.Addr {
	return address([...]string{model.IPv4: "10.%d.%d.%d", model.IPv6: "fd00::%x:%x:0:0:%x"}[w.family], subnet/256, subnet%256, host)
}

// serve commits a Service with endpoints, each on a node and so in a subnet of its own.
func (w *world) serve(namespace, name string, protocol model.Protocol, endpoints int) *service {
	number := len(w.services) + 1
	s := &service{
		key:  model.Match{Family: w.family, Protocol: protocol, Port: 80, Addr: w.addr(60_000, number)},
		mode: model.PassiveChecksAvoid,
		name: model.ServicePortName{ServiceName: model.ServiceName{Namespace: namespace, Name: name}},
	}
	s.number = number
	w.services[name] = s
	w.grow(s, endpoints)
	return s
}

// grow commits a Service with more endpoints.
func (w *world) grow(s *service, endpoints int) {
	for range endpoints {
		a := w.addr(1+len(s.endpoints), s.number)
		s.endpoints = append(s.endpoints, endpoint{s.key.Protocol, netip.AddrPortFrom(a, 8080)})
		w.pods[a] = &pod{}
	}
	w.commit(s)
}

// open adds connections of one client that had a reply and stay open.
func (w *world) open(s *service, connections int) {
	for i := range connections {
		w.lastID++
		w.entries = append(w.entries, &entry{conntrack.Entry{
			Protocol: s.key.Protocol, Client: netip.AddrPortFrom(w.addr(60_000, 9), uint16(w.lastID)), Replied: true,
			Original: netip.AddrPortFrom(s.key.Addr, s.key.Port), Reply: s.endpoints[i%len(s.endpoints)].addr, ID: w.lastID,
		}, time.Now().Add(24 * time.Hour)})
		w.counts[s.key]++
	}
}

// commit lets the tracker know the Service as the loop commits it, and waits until it does.
func (w *world) commit(s *service) {
	w.follow(s)
	w.wait(0)
}

func (w *world) follow(s *service) { w.tracker.Follow(s.committed()) }

func (s *service) committed() sync.Committed {
	pool := &model.Pool{Key: s.key, PassiveChecks: s.mode, Hairpin: s.local}
	for _, e := range s.endpoints {
		pool.Cluster = append(pool.Cluster, e.addr)
	}
	slices.SortFunc(pool.Cluster, netip.AddrPort.Compare)
	return sync.Committed{Set: []model.Frontend{{Match: s.key, Service: s.name, Pool: pool}}}
}

// use has a client connect to a Service from now on.
func (w *world) use(name string, s *service, every time.Duration) *client {
	c := &client{addr: w.addr(50_000, 1+len(w.clients)), service: s, every: every, next: time.Now()}
	w.clients[name] = c
	return c
}

// wait lets time pass.
func (w *world) wait(d time.Duration) {
	w.mu.Unlock()
	<-time.After(d)
	synctest.Wait()
	w.mu.Lock()
}

// until lets clients connect until done reports true, at most for a time, and returns how long that
// took.
func (w *world) until(most time.Duration, done func() bool) time.Duration {
	start := time.Now()
	for !done() && time.Since(start) < most {
		for _, name := range slices.Sorted(maps.Keys(w.clients)) {
			if c := w.clients[name]; !time.Now().Before(c.next) {
				c.next = c.next.Add(c.every)
				w.connect(c, name, w.choose(c.service))
			}
		}
		w.wait(step)
	}
	return time.Since(start)
}

// pass lets clients connect for a time.
func (w *world) pass(d time.Duration) { w.until(d, func() bool { return false }) }

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
