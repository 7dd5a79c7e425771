package takeover

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
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

	mu         stdsync.Mutex // guards what follows
	found      kubeproxy.Found
	otherWhy   string
	otherErr   error
	legacyErr  error
	legacyWhy  string
	suspended  int
	resumed    int
	removed    bool
	suspendErr error
	unhealthy  bool
	snapshot   sync.Snapshot
	refusing   map[netip.AddrPort]bool
	translated map[netip.AddrPort]netip.AddrPort // where connections to an address arrive
	unobserved bool
	changing   []int           // ClusterIPs that change during each connection
	changes    func(nft.Batch) // of the takeover
	log        bytes.Buffer

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

func (f *fake) storeStarts(until time.Time, starts int) error {
	defer f.lock()()
	f.state = storedState{until: until, starts: starts}
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

func (f *fake) setSuspended(to bool) {
	for i := range f.found.Parts {
		f.found.Parts[i].Suspended = to
	}
}

func (f *fake) suspend(rules, time.Time) error {
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

func TestGoodProbationEndsWithTheRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default", "a", "b")
		to := f.takeover(10 * time.Minute)
		f.after(9*time.Minute+50*time.Second, func() {
			if f.removed || f.suspended != 1 || to.State() != StateProbation || len(to.Problems()) != 1 {
				t.Errorf("in the probation: removed %t, suspended %d times, state %s", f.removed, f.suspended, to.State())
			}
		})
		if _, failure := f.run(to, 11*time.Minute); failure != nil || !f.removed || to.State() != StateDone || len(to.Problems()) > 0 {
			t.Errorf("failure %v, removed %t, state %s", failure, f.removed, to.State())
		}
	})
}

func TestWithoutProbationRulesAreRemovedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default")
		f.after(time.Second, func() {
			if !f.removed || f.suspended > 0 {
				t.Errorf("removed %t, suspended %d times", f.removed, f.suspended)
			}
		})
		_, _ = f.run(f.takeover(0), 2*time.Second)
	})
}

// TestNodeIsNotReturnedAfterPartOfTheRemoval has one family removed when kube-vmap gets unhealthy,
// in the same process and after a restart.
func TestNodeIsNotReturnedAfterPartOfTheRemoval(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, "default")
			f.removeErr = errors.New("busy")
			to := f.takeover(time.Minute)
			f.after(2*time.Minute, func() { f.unhealthy = true })
			_, failure := f.run(to, 3*time.Minute)
			if restart {
				removing := to.removing
				to = f.takeover(time.Minute)
				to.removing = removing // as Start reads it
			}
			f.after(time.Minute, func() { f.removeErr = nil })
			if _, again := f.run(to, 10*time.Minute); failure != nil || again != nil || !f.removed {
				t.Errorf("failures %v, %v; removed %t", failure, again, f.removed)
			}
		})
	}
}

func TestProxyThatWritesIsLeftAlone(t *testing.T) {
	for name, do := range map[string]func(*fake){
		"it resumes its rules":      func(f *fake) { f.setSuspended(false) },
		"it adds a chain":           func(f *fake) { f.found.Content++ },
		"its process can be seen":   func(f *fake) { f.otherWhy = "process 7 is a kube-proxy" },
		"a port is in use for once": func(f *fake) { f.otherWhy = "port"; f.after(6*time.Second, func() { f.otherWhy = "" }) },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, "default")
			to := f.takeover(time.Minute)
			f.after(12*time.Second, func() { do(f) })
			f.after(16*time.Second, func() {
				if p := to.Problems(); to.State() != StateOtherProxy || len(p) != 1 || p[0].Reason != reasons[StateOtherProxy] {
					t.Errorf("%s: state %s, problems %v", name, to.State(), p)
				}
			})
			if _, failure := f.run(to, 50*time.Second); failure != nil || f.removed {
				t.Errorf("%s: failure %v, removed %t", name, failure, f.removed)
			}
		})
	}
}

func TestTakeoverIsRepeatedAfterAHiddenProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default")
		f.after(12*time.Second, func() { f.found.Content++ })
		to := f.takeover(time.Minute)
		_, _ = f.run(to, awakePeriod)
		if f.removed || f.resumed != 1 || f.suspended != 1 {
			t.Errorf("removed %t, resumed %d times, suspended %d times", f.removed, f.resumed, f.suspended)
		}
		if _, _ = f.run(to, 2*time.Minute); !f.removed || f.suspended != 2 {
			t.Errorf("later: removed %t, suspended %d times", f.removed, f.suspended)
		}
	})
}

// TestProbationThatPassesBesideAnotherProxyIsCheckedAfterIt has a port in use until the probation is
// over, and later rules that do not work.
func TestProbationThatPassesBesideAnotherProxyIsCheckedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default", "a")
		f.after(12*time.Second, func() { f.otherWhy = "port 10256 is in use" })
		f.after(time.Hour, func() { f.otherWhy = "" })
		f.after(time.Hour+30*time.Second, func() { f.refusing[clusterIP(1)], f.refusing[clusterIP(2)] = true, true })
		if _, failure := f.run(f.takeover(10*time.Minute), 2*time.Hour); failure == nil || f.removed {
			t.Errorf("failure %v, removed %t:\n%s", failure, f.removed, &f.log)
		}
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

func TestSuspensionIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default")
		f.suspendErr = errors.New("refused")
		f.after(12*time.Second, func() { f.suspendErr = nil })
		if _, failure := f.run(f.takeover(time.Minute), 2*time.Minute); failure != nil || f.suspended != 1 || !f.removed {
			t.Errorf("failure %v, suspended %d times, removed %t:\n%s", failure, f.suspended, f.removed, &f.log)
		}
	})
}

// TestKubeProxyThatComesBackIsNoticedInSecondsAndFollowed has a kube-proxy that starts when
// everything is done, and ends after two minutes.
func TestKubeProxyThatComesBackIsNoticedInSecondsAndFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default")
		to := f.takeover(time.Minute)
		f.after(5*time.Minute, func() {
			f.found.Parts = []kubeproxy.Part{{Table: "nat", Chain: "KUBE-SERVICES"}}
			f.otherWhy = "process 7 is a kube-proxy"
		})
		f.after(5*time.Minute+2*pollPeriod, func() {
			if to.State() != StateOtherProxy || to.NotReady() == "" {
				t.Errorf("beside it, state %s, not ready %q", to.State(), to.NotReady())
			}
		})
		f.after(6*time.Minute, func() { f.otherWhy = "" })
		f.after(6*time.Minute+4*pollPeriod, func() {
			if to.State() != StateProbation || f.suspended != 2 || to.NotReady() != "" {
				t.Errorf("after it has ended, state %s, suspended %d times, not ready %q", to.State(), f.suspended, to.NotReady())
			}
		})
		if _, failure := f.run(to, 10*time.Minute); failure != nil || to.State() != StateDone {
			t.Errorf("failure %v, state %s", failure, to.State())
		}
	})
}

// TestLegacyRulesAreWaitedFor has rules in iptables-legacy for a minute, beside some in nf_tables.
func TestLegacyRulesAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default")
		f.legacyWhy = "chain KUBE-SERVICES in table nat of [IPv4]"
		to := f.takeover(time.Minute)
		f.after(time.Minute, func() {
			p := to.Problems()
			if to.State() != StateOtherProxy || f.suspended+f.resumed > 0 || !strings.Contains(to.NotReady(), "kube-proxy --cleanup") ||
				len(p) != 1 || !strings.Contains(p[0].Text, "kube-proxy --cleanup") || !strings.Contains(p[0].Text, f.legacyWhy) {
				t.Errorf("state %s, suspended %d times, not ready %q, problems %+v", to.State(), f.suspended, to.NotReady(), p)
			}
			f.legacyWhy = ""
		})
		if _, failure := f.run(to, 3*time.Minute); failure != nil || f.suspended != 1 || !f.removed || to.NotReady() != "" {
			t.Errorf("failure %v, suspended %d times, removed %t, not ready %q", failure, f.suspended, f.removed, to.NotReady())
		}
		if n := strings.Count(f.log.String(), "kube-proxy --cleanup"); n != 1 {
			t.Errorf("the command is %d times in the log:\n%s", n, &f.log)
		}
	})
}

// TestWhatCannotBeReadIsNotSaidToBeThere has ports, and then iptables-legacy, that cannot be read
// for a minute each.
func TestWhatCannotBeReadIsNotSaidToBeThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default")
		f.otherErr = errors.New("list listening sockets: EACCES")
		to := f.takeover(time.Minute)
		check := func(cause error) {
			p := to.Problems()
			if to.State() != StateOtherProxy || len(p) != 1 || !strings.Contains(p[0].Text, cause.Error()) ||
				!strings.Contains(p[0].Text, "cannot read whether another proxy runs") {
				t.Errorf("state %s, problems %+v", to.State(), p)
			}
		}
		f.after(time.Minute, func() {
			check(f.otherErr)
			f.otherErr, f.legacyErr = nil, errors.New("list the tables of iptables-legacy: EACCES")
		})
		f.after(2*time.Minute, func() {
			check(f.legacyErr)
			f.legacyErr = nil
		})
		if _, failure := f.run(to, 4*time.Minute); failure != nil || f.suspended != 1 || !f.removed || to.NotReady() != "" {
			t.Errorf("failure %v, suspended %d times, removed %t, not ready %q", failure, f.suspended, f.removed, to.NotReady())
		}
		for _, text := range []string{"seems to run", "--cleanup"} {
			if strings.Contains(f.log.String(), text) {
				t.Errorf("%q in the log:\n%s", text, &f.log)
			}
		}
	})
}

// TestRestartThatNeverGetsReadyFails has a process whose first sync never succeeds.
func TestRestartThatNeverGetsReadyFails(t *testing.T) {
	for _, tc := range []struct{ resumed, unhealthy, fails bool }{
		{true, true, true},
		{true, false, false}, // nothing came from the API server
		{false, true, false}, // nothing was suspended
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.unhealthy = tc.unhealthy
			to := f.takeover(10 * time.Minute)
			if tc.resumed {
				f.state.until = time.Now().Add(10 * time.Minute)
			}
			if err := to.Start(); err != nil {
				t.Fatal(err)
			}
			p := f.proxy()
			p.Ready = nil
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			start := time.Now()
			err := to.Run(ctx, p)
			if took := time.Since(start); (err != nil) != tc.fails || err != nil && took > readyTimeout+4*pollPeriod {
				t.Errorf("%+v: after %s, %v", tc, took, err)
			}
		})
	}
}
