package sync_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	stdsync "sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
	"kube-vmap/sync/looptest"
)

// diary writes down what a loop tells. Its lock is for the race detector, which
// does not know whose turn it is where time passes in between.
type diary struct {
	mu      stdsync.Mutex
	reports []sync.Result
	lines   []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// QueuedChanges notes what waits.
func (d *diary) Queued(q sync.QueuedChanges) { d.write("queued %d %d", q.Services, q.Slices) }

// Synced notes a report.
func (d *diary) Synced(r sync.Result) {
	d.write("synced %v", r.Err == nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, r)
}

// Node notes the node.
func (d *diary) Node(n sync.SetNode) { d.write("node %s %s", n.Node.Name, n.Ineligible) }

// Warn notes an event.
func (d *diary) Warn(o sync.Object, reason, note string) {
	d.write("%s %s: %s: %s", reason, o, o.UID, note)
}

// take returns the lines since it was last asked.
func (d *diary) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.lines = nil }()
	return strings.Join(d.lines, "\n")
}

// last is the last report.
func (d *diary) last() sync.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reports[len(d.reports)-1]
}

// stage is a running loop whose source is the test. It is used in a bubble.
type stage struct {
	t *testing.T
	*diary
	followed ledger
	kernel   *kerneltest.Faulty
	loop     *sync.Loop
	bursts   chan []sync.Event
}

func newStage(t *testing.T, c sync.Config) *stage {
	return newLoggedStage(t, c, slog.New(slog.DiscardHandler))
}

func newLoggedStage(t *testing.T, c sync.Config, log *slog.Logger) *stage {
	s := &stage{t: t, diary: &diary{}, bursts: make(chan []sync.Event)}
	s.kernel = kerneltest.NewFaulty(kerneltest.New(), kerneltest.FaultRates{}, 1)
	c.NodeName, c.Rules.MasqueradeMark = "node-1", nft.DefaultMasqueradeMark
	c.Observer, c.Recorder, c.Followers = sync.MultiObserver{s.diary}, s.diary, []sync.Follower{&s.followed}
	source := sourceFunc(func(ctx context.Context, out chan<- []sync.Event) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case out <- <-s.bursts:
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	s.loop = sync.NewLoop(c, source, s.kernel, log)
	go func() { done <- s.loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		close(s.bursts)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// say sends a burst and waits until the loop has nothing left to do.
func (s *stage) say(events ...sync.Event) {
	s.bursts <- events
	synctest.Wait()
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// expect compares what was told since it was last called.
func (s *stage) expect(what string, want ...string) {
	s.t.Helper()
	if got := s.take(); got != strings.Join(want, "\n") {
		s.t.Errorf("%s: got\n%s\nwant\n%s", what, got, strings.Join(want, "\n"))
	}
}

// web is a Service of both families and all protocols.
func web(name string, n byte) sync.SetService {
	s := model.Service{
		Name: model.ServiceName{Namespace: "default", Name: name}, UID: "uid-of-" + name, Created: int64(n),
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, n}), netip.AddrFrom16([16]byte{0xfd, 15: n})},
	}
	for _, p := range model.Protocols {
		s.Ports = append(s.Ports, model.ServicePort{Name: p.String(), Protocol: p, Port: 80})
	}
	return sync.SetService{Service: s}
}

// served is the slice of default/web in family f, with one endpoint.
func served(f model.Family, n byte) sync.SetSlice {
	addr := netip.AddrFrom4([4]byte{10, 244, 0, n})
	if f == model.IPv6 {
		addr = netip.AddrFrom16([16]byte{0xfd, 1, 15: n})
	}
	s := model.EndpointSlice{
		Name:      model.EndpointSliceName{Namespace: "default", Name: "web-" + f.String()},
		Service:   model.ServiceName{Namespace: "default", Name: "web"},
		Family:    f,
		Endpoints: []model.Endpoint{{Addr: addr, Ready: true, Serving: true, Node: "node-2"}},
	}
	for _, p := range model.Protocols {
		s.Ports = append(s.Ports, model.EndpointPort{Name: p.String(), Protocol: p, Port: 8080})
	}
	return sync.SetSlice{Slice: s}
}

func TestObserversHearOfWhatIsQueuedAndWhatBecameOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{})
		s.say(sync.SetNode{Node: model.Node{Name: "node-1"}, Ineligible: "leaving"}, web("web", 1), served(model.IPv4, 1))
		s.expect("the first burst", "node node-1 leaving", "queued 1 1", "synced true")
		if r := s.last(); !r.Full || r.Drift || r.Services != 1 || r.Endpoints != 3 || r.Applied.Steps != 1 {
			t.Errorf("the first report is %+v", r)
		}
		triggered := time.Now()
		change := served(model.IPv6, 2)
		change.Triggered = triggered
		s.say(change)
		s.expect("a change", "queued 0 1", "synced true")
		if r := s.last(); r.Full || r.Endpoints != 6 || !slices.Equal(r.Triggered, []time.Time{triggered}) || r.Counts.Added == 0 {
			t.Errorf("the report of the change is %+v", r)
		}
		s.say(sync.DeleteService{Name: web("web", 1).Service.Name}, sync.DeleteSlice{Name: change.Slice.Name})
		s.expect("a deletion", "queued 1 1", "synced true")
		if r := s.last(); r.Services != 0 || r.Endpoints != 0 || len(r.Triggered) != 0 {
			t.Errorf("the report of the deletion is %+v", r)
		}
	})
}

func TestTriggersWaitForTheSyncThatWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{})
		s.say(web("web", 1))
		s.kernel.Fail(kerneltest.FaultNotSent, 1)
		change := served(model.IPv4, 1)
		change.Triggered = time.Now()
		s.say(change)
		if r := s.last(); r.Err == nil || len(r.Triggered) != 0 {
			t.Errorf("the kernel failed, and the report is %+v", r)
		}
		pass(time.Second)
		if r := s.last(); r.Err != nil || !slices.Equal(r.Triggered, []time.Time{change.Triggered}) || r.Drift {
			t.Errorf("after the failure the report is %+v", r)
		}
	})
}

func TestWhatOthersDidToOurTablesIsDrift(t *testing.T) {
	for _, f := range model.Families {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, sync.Config{})
			s.say(web("web", 1), served(f, 1))
			if _, err := s.kernel.Apply(nft.Batch{nft.DeleteTable{Family: f}}); err != nil {
				t.Fatal(err)
			}
			s.say(served(f, 2))
			if r := s.last(); r.Err != nil || !r.Drift || !r.Full {
				t.Errorf("%s: the report is %+v", f, r)
			}
		})
	}
}

func TestARefusedServicePortIsToldAndIsNoDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{})
		s.say(web("web", 1))
		s.kernel.Refuse("default/web:udp", syscall.EINVAL, 0)
		s.take()
		s.say(served(model.IPv6, 1))
		if got := s.take(); strings.Count(got, "RefusedByKernel Service default/web: uid-of-web: service default/web:udp") != 1 {
			t.Errorf("told was\n%s", got)
		}
		if r := s.last(); r.Err != nil || r.Drift || r.RefusedPorts != 1 || r.Endpoints != 2 {
			t.Errorf("the report is %+v", r)
		}
	})
}

func TestAServiceWithTooManyEndpointsIsToldAndLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{})
		heavy := model.EndpointSlice{
			Name: model.EndpointSliceName{Namespace: "default", Name: "heavy-1"}, Service: web("heavy", 1).Service.Name,
			Ports: make([]model.EndpointPort, 1000), Endpoints: make([]model.Endpoint, 1001),
		}
		s.say(web("heavy", 1), sync.SetSlice{Slice: heavy}, web("light", 2), served(model.IPv4, 2))
		if got := s.take(); strings.Count(got, "Unusable Service default/heavy: uid-of-heavy: it needs 4004006 elements of the rule set") != 1 {
			t.Errorf("told was\n%s", got)
		}
		if r := s.last(); r.Err != nil || r.RefusedObjects != 1 {
			t.Errorf("the report is %+v", r)
		}
		s.say(sync.DeleteSlice{Name: heavy.Name})
		if r := s.last(); r.RefusedObjects != 0 {
			t.Errorf("when it weighs less, the report is %+v", r)
		}
	})
}

// TestLostClaimsAreOneNoticeOfTheLoser has two Services of one address, of six ports
// each in both families together.
func TestLostClaimsAreOneNoticeOfTheLoser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{})
		older, younger := web("older", 1), web("younger", 2)
		younger.Service.ClusterIPs = older.Service.ClusterIPs
		s.say(older, younger)
		got := s.take()
		want := "AddressConflict Service default/younger: uid-of-younger: 10.96.0.1:80/tcp is held by Service default/older:tcp," +
			" which is older or whose own address it is, and not served for this one; so are 5 more of its addresses and ports"
		if strings.Count(got, want) != 1 || strings.Count(got, "AddressConflict") != 1 {
			t.Errorf("%q is not reported once in\n%s", want, got)
		}
		if r := s.last(); r.Conflicts != 6 {
			t.Errorf("the report is %+v", r)
		}
	})
}

// TestNoticesAreLimitedByNamespace floods one namespace with problems, while another
// has one; later, when the namespace's share is back, the skipped ones are counted.
func TestNoticesAreLimitedByNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{})
		problem := func(namespace string, n int) sync.Event {
			o := sync.Object{Kind: "Service", Namespace: namespace, Name: fmt.Sprintf("odd-%d", n), UID: "1"}
			return sync.SetProblem{Object: o, Err: errors.New(strings.Repeat("long ", 10_000))}
		}
		var flood []sync.Event
		for n := range 1000 {
			flood = append(flood, problem("flood", n))
		}
		s.say(append(flood, problem("quiet", 0))...)
		got := s.take()
		if n := strings.Count(got, "Unusable Service flood/"); n != 20 || !strings.Contains(got, "Unusable Service quiet/odd-0") {
			t.Errorf("%d notices of the flood, want 20, in\n%s", n, got)
		}
		if most := 21 * 2200; len(got) > most {
			t.Errorf("%d bytes are reported, want %d at most", len(got), most)
		}
		<-time.After(time.Minute)
		s.say(problem("flood", 1000))
		if got := s.take(); strings.Count(got, "Unusable Service flood/") != 1 {
			t.Errorf("after a minute, reported is\n%s", got)
		}
	})
}

func TestAProblemIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{})
		o := sync.Object{Kind: "Service", Namespace: "default", Name: "odd", UID: "1"}
		bad := sync.SetProblem{Object: o, Err: errors.New("spec.ports[0].port: 0")}
		s.say(bad)
		s.expect("news", "queued 0 0", "Unusable Service default/odd: 1: spec.ports[0].port: 0", "synced true")
		s.say(bad)
		s.expect("the same again", "queued 0 0", "synced true")
		if r := s.last(); r.RefusedObjects != 1 {
			t.Errorf("the report is %+v", r)
		}
		s.say(sync.SetProblem{Object: o})
		s.expect("solved", "queued 0 0", "synced true")
		if r := s.last(); r.RefusedObjects != 0 {
			t.Errorf("the report is %+v", r)
		}
		s.say(bad)
		s.expect("again", "queued 0 0", "Unusable Service default/odd: 1: spec.ports[0].port: 0", "synced true")
	})
}

func TestTheKernelIsLeftAloneForTheMinimumPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{MinSyncPeriod: time.Second})
		s.say(web("web", 1))
		s.expect("the first burst, at once", "queued 1 0", "synced true")
		s.say(served(model.IPv4, 1))
		s.say(served(model.IPv6, 1))
		s.expect("more, too soon", "queued 0 1", "queued 0 1")
		pass(time.Second)
		s.expect("the period is over", "synced true")
		pass(time.Minute)
		s.expect("nothing happens")
		s.say(served(model.IPv6, 2))
		s.expect("a lone change, at once", "queued 0 1", "synced true")
	})
}

func TestPodsAreToldByTheRangesOfTheNode(t *testing.T) {
	ranges := [...]netip.Prefix{
		model.IPv4: netip.MustParsePrefix("10.244.1.0/24"), model.IPv6: netip.MustParsePrefix("fd00:10:244:1::/64"),
	}
	other := [...]netip.Prefix{model.IPv4: netip.MustParsePrefix("10.244.2.0/24"), model.IPv6: {}}
	for from, c := range map[string]sync.Config{"the node": {PodsFromNode: true}, "nowhere": {}} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, c)
			holds := func(when string, ranges [len(model.Families)]netip.Prefix) {
				t.Helper()
				if from == "nowhere" {
					ranges = [len(model.Families)]netip.Prefix{}
				}
				want := sync.Config{NodeName: "node-1", Rules: nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Pods: ranges}}
				rules, _ := sync.Build(want, []sync.Event{web("web", 1), served(model.IPv4, 1), served(model.IPv6, 1)})
				have, err := s.kernel.Read()
				if err != nil {
					t.Fatal(err)
				}
				if got, want := looptest.Summary(have), looptest.Summary(rules.Tables()); got != want {
					t.Errorf("ranges from %s, %s: got\n%s\nwant\n%s", from, when, got, want)
				}
			}
			node := func(r [len(model.Families)]netip.Prefix) sync.SetNode {
				return sync.SetNode{Node: model.Node{Name: "node-1", PodCIDRs: r}}
			}
			s.say(node(ranges), web("web", 1), served(model.IPv4, 1), served(model.IPv6, 1))
			holds("at first", ranges)
			s.say(node(other))
			holds("when they change", other)
			s.say(sync.SetNode{Node: model.Node{Name: "node-1"}})
			holds("when the node is gone", other)
		})
	}
}

func TestRefusedPortsDoNotPutOffTheFirstBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{MinSyncPeriod: time.Minute})
		for _, p := range model.Protocols {
			s.kernel.Refuse("default/web:"+p.String(), syscall.EINVAL, 0)
		}
		s.say(web("web", 1), served(model.IPv4, 1), web("other", 2))
		if r := s.last(); r.Err != nil || r.RefusedPorts != 3 {
			t.Errorf("before any time has passed, the report is %+v", r)
		}
	})
}

func TestARefusalForOtherReasonsIsNoDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{})
		s.say(web("web", 1))
		s.kernel.Fail(kerneltest.FaultDenied, 1)
		s.say(served(model.IPv4, 1))
		pass(time.Second)
		if r := s.last(); r.Err != nil || r.Drift || !r.Full {
			t.Errorf("the report is %+v", r)
		}
	})
}

func TestOfASliceOnlyTheOldestTriggerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{MinSyncPeriod: time.Hour, SyncPeriod: time.Hour})
		s.say(web("web", 1))
		first := time.Now()
		for i := range byte(9) {
			change := served(model.IPv4, i)
			change.Triggered = first.Add(time.Duration(i) * time.Second)
			s.say(change)
		}
		gone := served(model.IPv6, 1)
		gone.Triggered = first
		s.say(gone)
		s.say(sync.DeleteSlice{Name: gone.Slice.Name})
		pass(time.Hour)
		if r := s.last(); !slices.Equal(r.Triggered, []time.Time{first}) {
			t.Errorf("the report is %+v", r)
		}
	})
}

func TestWhatFailedIsTriedAgainWithinTheSyncPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sync.Config{SyncPeriod: 2 * time.Second})
		s.kernel.Fail(kerneltest.FaultRead, 8)
		s.say(web("web", 1))
		pass(15 * time.Second) // with delays up to 30 s it would be 25
		if r := s.last(); r.Err != nil {
			t.Errorf("the report is %+v", r)
		}
	})
}
