package takeover

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	stdsync "sync"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/sync"
)

// fake is a system, and the proxy on it, in a bubble of synctest.
type fake struct {
	t *testing.T

	mu          stdsync.Mutex // guards what follows
	found       kubeproxy.Found
	otherWhy    string
	otherErr    error
	legacyErr   error
	legacyWhy   string
	lostPackets string
	suspended   int
	resumed     int
	removed     bool
	suspendErr  error
	unhealthy   bool
	snapshot    sync.Snapshot
	refusing    map[netip.AddrPort]bool
	translated  map[netip.AddrPort]netip.AddrPort // where connections to an address arrive
	unobserved  bool
	changing    []int           // ClusterIPs that change during each connection
	changes     func(nft.Batch) // of the takeover
	log         bytes.Buffer

	snapshotErr error
	readTime    time.Duration // of kube-proxy's rules
	reads       int
	removeErr   error // the first family only is removed
	state       storedState
}

func (f *fake) lock() (unlock func()) {
	f.mu.Lock()
	return f.mu.Unlock
}

func (f *fake) readState() (storedState, error) {
	defer f.lock()()
	return f.state, nil
}

func (f *fake) store(s storedState) error {
	defer f.lock()()
	f.state = s
	return nil
}

func (f *fake) other([]uint16) (string, error) {
	defer f.lock()()
	return f.otherWhy, f.otherErr
}

func (f *fake) legacy() (string, error) {
	defer f.lock()()
	return f.legacyWhy, f.legacyErr
}

func (f *fake) find() (rules, error) {
	<-time.After(f.readTime)
	defer f.lock()()
	if !f.removed { // no probation after it
		f.reads++
	}
	found := f.found
	found.Parts = append([]kubeproxy.Part(nil), f.found.Parts...)
	return rules{nft: &found}, nil
}

func (f *fake) lost(sync.Snapshot, rules) (string, error) {
	defer f.lock()()
	return f.lostPackets, nil
}

func (f *fake) setSuspended(to bool) {
	for i := range f.found.Parts {
		f.found.Parts[i].Suspended = to
	}
}

func (f *fake) suspend(rules, storedState) error {
	defer f.lock()()
	if f.suspendErr == nil {
		f.suspended++
		f.setSuspended(true)
	}
	return f.suspendErr
}

func (f *fake) resume() error {
	defer f.lock()()
	f.resumed++
	f.setSuspended(false)
	return nil
}

func (f *fake) remove(bool) ([]string, error) {
	defer f.lock()()
	if f.removeErr != nil {
		f.found.Parts = f.found.Parts[:1]
		return nil, f.removeErr
	}
	f.removed, f.found.Parts = true, nil
	return []string{"everything"}, nil
}

func (f *fake) dial(_ context.Context, to netip.AddrPort) error {
	defer f.lock()()
	if f.refusing[to] {
		return errors.New("refused")
	}
	return nil
}

func (f *fake) observe(ctx context.Context, to netip.AddrPort) observation {
	o := observation{err: f.dial(ctx, to)}
	defer f.lock()()
	for _, n := range f.changing {
		e := nft.Element{Key: nft.Key{Addr: clusterIP(n).Addr()}}
		f.changes(nft.Batch{nft.DeleteElements{Elements: []nft.Element{e}}, nft.AddElements{Elements: []nft.Element{e}}})
	}
	o.reply, o.known = f.translated[to], !f.unobserved
	return o
}

// proxy is ready.
func (f *fake) proxy() Proxy {
	ready := make(chan struct{})
	close(ready)
	return Proxy{
		Ready: ready,
		Snapshot: func(context.Context) (sync.Snapshot, error) {
			defer f.lock()()
			return f.snapshot, f.snapshotErr
		},
		Healthy: func() bool {
			defer f.lock()()
			return !f.unhealthy
		},
	}
}

// newFake returns a node with kube-proxy's rules, and with the ClusterIPs 10.96.0.N of one
// Service in each of these namespaces, whose endpoints are 10.244.0.N.
func newFake(t *testing.T, namespaces ...string) *fake {
	f := &fake{t: t, refusing: map[netip.AddrPort]bool{}, translated: map[netip.AddrPort]netip.AddrPort{}}
	for _, family := range model.Families {
		f.found.Parts = append(f.found.Parts, kubeproxy.Part{Family: family, Table: "kube-proxy", Chain: "nat-prerouting"})
	}
	for i, ns := range namespaces {
		service := model.ServicePortName{ServiceName: model.ServiceName{Namespace: ns, Name: "web"}, Protocol: model.TCP}
		if ns == kubernetes.Namespace {
			service.Name = kubernetes.Name
		}
		f.snapshot.Services = append(f.snapshot.Services, model.ServiceSnapshot{
			Service: &model.Service{Name: service.ServiceName, Ports: make([]model.ServicePort, 1)},
		})
		f.snapshot.Installed = append(f.snapshot.Installed, nft.InstalledFrontend{
			Frontend: &model.Frontend{Service: service, Match: model.Match{Addr: clusterIP(i + 1).Addr(), Port: 80, Protocol: model.TCP}},
			Cluster:  []netip.AddrPort{endpoint(i + 1), endpoint(i + 1)},
		})
	}
	return f
}

func clusterIP(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, byte(n)}), 80)
}

func endpoint(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(n)}), 8080)
}

func (f *fake) takeover(probation time.Duration) *Takeover {
	to := New(Config{NodeName: "node-1", Probation: probation, Marker: Marker{Never: true}, Log: slog.New(slog.NewTextHandler(&f.log, nil))})
	to.system, to.dial, to.observe = f, f.dial, f.observe
	f.changes = to.changes.add
	return to
}

// run runs a takeover for a time, and returns how long it ran and its failure.
func (f *fake) run(to *Takeover, limit time.Duration) (time.Duration, *FailedError) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	start := time.Now()
	err := to.Run(ctx, f.proxy())
	var failure *FailedError
	if err != nil && !errors.As(err, &failure) {
		f.t.Errorf("it ends with %v", err)
	}
	return time.Since(start), failure
}

// after calls do after some time, with the mutex held.
func (f *fake) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		defer f.lock()()
		do()
	})
}

// TestCheckThatReadsNoEndpointsFails has changes reach the kernel only after each view was read.
func TestCheckThatReadsNoEndpointsFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default", "a")
		f.after(2*time.Second, func() { f.refusing[clusterIP(1)], f.refusing[clusterIP(2)] = true, true })
		p, healthy := f.proxy(), true
		p.Healthy = func() bool { healthy = !healthy; return healthy }
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := f.takeover(time.Minute).Run(ctx, p); err == nil || f.removed {
			t.Errorf("it ends with %v, removed %t:\n%s", err, f.removed, &f.log)
		}
	})
}
