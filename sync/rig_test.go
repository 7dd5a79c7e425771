package sync_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	stdsync "sync"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// sourceFunc is a function as a source.
type sourceFunc func(ctx context.Context, out chan<- []sync.Event) error

// Run calls the function.
func (f sourceFunc) Run(ctx context.Context, out chan<- []sync.Event) error { return f(ctx, out) }

// newLoop returns a loop of that source on a fake kernel.
func newLoop(f sourceFunc) *sync.Loop {
	return sync.NewLoop(sync.Config{NodeName: "node-1"}, f, kerneltest.New(), slog.New(slog.DiscardHandler))
}

// eventLog records what a loop reports. Its lock is for the race detector, which does not
// know that loop and test take turns.
type eventLog struct {
	mu      stdsync.Mutex
	results []sync.Result
	lines   []string
}

func (d *eventLog) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// Queued implements [sync.Observer].
func (d *eventLog) Queued(q sync.QueuedChanges) { d.write("queued %d %d", q.Services, q.Slices) }

// Synced implements [sync.Observer].
func (d *eventLog) Synced(r sync.Result) {
	d.write("synced %v", r.Err == nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.results = append(d.results, r)
}

// Node implements [sync.Observer].
func (d *eventLog) Node(n sync.SetNode) { d.write("node %s %s", n.Node.Name, n.Ineligible) }

// Warn implements [sync.Recorder].
func (d *eventLog) Warn(o sync.Object, reason, note string) {
	d.write("%s %s: %s: %s", reason, o, o.UID, note)
}

// take returns the lines since its last call.
func (d *eventLog) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.lines = nil }()
	return strings.Join(d.lines, "\n")
}

// last returns the last result.
func (d *eventLog) last() sync.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.results[len(d.results)-1]
}

// loopRig is a running loop whose source is the test, in a bubble of synctest.
type loopRig struct {
	t *testing.T
	*eventLog
	committed committedLog
	kernel    *kerneltest.Faulty
	loop      *sync.Loop
	bursts    chan []sync.Event
}

func newRig(t *testing.T, c sync.Config) *loopRig {
	return newRigOn(t, kerneltest.New(), c, slog.DiscardHandler)
}

// newRigOn returns a rig of a kernel and a log.
func newRigOn(t *testing.T, k sync.Kernel, c sync.Config, log slog.Handler) *loopRig {
	s := &loopRig{t: t, eventLog: &eventLog{}, bursts: make(chan []sync.Event)}
	s.kernel = kerneltest.NewFaulty(k, kerneltest.FaultRates{}, 1)
	c.NodeName, c.Rules.MasqueradeMark = "node-1", nft.DefaultMasqueradeMark
	c.Observer, c.Recorder, c.Followers = sync.MultiObserver{s.eventLog}, s.eventLog, []sync.Follower{&s.committed}
	source := sourceFunc(func(ctx context.Context, out chan<- []sync.Event) error {
		for {
			if !sync.Send(ctx, out, <-s.bursts) {
				return nil
			}
		}
	})
	s.loop = sync.NewLoop(c, source, s.kernel, slog.New(log))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
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

// send sends a burst and waits until the loop has nothing left to do.
func (s *loopRig) send(events ...sync.Event) {
	s.bursts <- events
	synctest.Wait()
}

// elapse lets time pass in the bubble.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// expect compares what was reported since its last call.
func (s *loopRig) expect(what string, want ...string) {
	s.t.Helper()
	if got := s.take(); got != strings.Join(want, "\n") {
		s.t.Errorf("%s: got\n%s\nwant\n%s", what, got, strings.Join(want, "\n"))
	}
}

// webService returns a Service of both families and all protocols.
func webService(name string, n byte) sync.SetService {
	s := model.Service{
		Name: model.ServiceName{Namespace: "default", Name: name}, UID: "uid-of-" + name, Created: int64(n),
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, n}), netip.AddrFrom16([16]byte{0xfd, 15: n})},
	}
	for _, p := range model.Protocols {
		s.Ports = append(s.Ports, model.ServicePort{Name: p.String(), Protocol: p, Port: 80})
	}
	return sync.SetService{Service: s}
}

// webSlice returns the slice of default/web in family f, with one endpoint.
func webSlice(f model.Family, n byte) sync.SetSlice {
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

// committedLog records what the kernel committed.
type committedLog struct{ eventLog }

// Follow implements [sync.Follower].
func (d *committedLog) Follow(t sync.Committed) {
	var out strings.Builder
	if t.Full {
		out.WriteString("full ")
	}
	fmt.Fprintf(&out, "set %d removed %d", len(t.Set), len(t.Removed))
	for _, h := range t.HealthChecks {
		fmt.Fprintf(&out, " %s:%d=%v", h.Service.Name, h.Port, h.Local)
	}
	d.write("%s at %v", out.String(), t.NodeAddrs)
}

// addressList is an address source that sends what the test sends.
type addressList chan []netip.Prefix

// single returns addresses as an address source does, each alone on its link.
func single(addrs ...netip.Addr) (out []netip.Prefix) {
	for _, a := range addrs {
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	return out
}

func (a addressList) Run(ctx context.Context, out chan<- []netip.Prefix) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case list := <-a:
			sync.Send(ctx, out, list)
		}
	}
}
