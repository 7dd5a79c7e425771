package takeover

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// TestChecksReadLessOftenWhatTakesLong has rules that take a while to read.
func TestChecksReadLessOftenWhatTakesLong(t *testing.T) {
	for _, tc := range []struct {
		readTime time.Duration
		period   time.Duration
	}{{300 * time.Millisecond, 30 * time.Second}, {3 * time.Second, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, "default")
			f.readTime = tc.readTime
			to := f.takeover(10 * time.Minute)
			dials := 0
			to.dial = func(context.Context, netip.AddrPort) error { dials++; return nil }
			_, _ = f.run(to, 11*time.Minute)
			want := int(10 * time.Minute / tc.period)
			if !f.removed || f.reads < want || f.reads > want+5 || dials < 10*60/6 {
				t.Errorf("removed %t, rules read %d times, want %d, %d connections", f.removed, f.reads, want, dials)
			}
		})
	}
}

// TestProbationEndsWithCheckThatReads has a loop that does not answer when the probation is over.
func TestProbationEndsWithCheckThatReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default")
		f.readTime = time.Second // used for a minute
		f.after(50*time.Second, func() { f.snapshotErr = errors.New("no answer") })
		f.after(2*time.Minute, func() {
			if f.removed {
				t.Error("kube-proxy's rules are removed without a check")
			}
			f.snapshotErr = nil
		})
		if _, failure := f.run(f.takeover(time.Minute), 3*time.Minute); failure != nil || !f.removed {
			t.Errorf("failure %v, removed %t", failure, f.removed)
		}
	})
}

// TestFailedCheckReadsAgain has a Service lose its endpoints while what was read is still used.
func TestFailedCheckReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default")
		f.readTime = 300 * time.Millisecond
		f.after(8*time.Second, func() { f.refusing[clusterIP(1)], f.snapshot.Installed[0].Cluster = true, nil })
		if _, failure := f.run(f.takeover(10*time.Minute), 11*time.Minute); failure != nil {
			t.Error(failure)
		}
		if n := strings.Count(f.log.String(), "check of the probation failed"); n != 1 {
			t.Errorf("%d checks failed:\n%s", n, &f.log)
		}
	})
}

// TestProbationFailsOnThreeBadChecksInARow has what goes wrong after a minute, and whether
// that fails the probation.
func TestProbationFailsOnThreeBadChecksInARow(t *testing.T) {
	refuse := func(reason string, namespaces ...string) func(*fake) {
		return func(f *fake) {
			for _, ns := range namespaces {
				for range 2 {
					f.snapshot.Problems = append(f.snapshot.Problems, sync.Problem{
						Object: sync.Object{Kind: "Service", Namespace: ns}, Reason: reason,
					})
				}
			}
		}
	}
	block := func(numbers ...int) func(*fake) {
		return func(f *fake) {
			for _, n := range numbers {
				f.refusing[clusterIP(n)] = true
			}
		}
	}
	sendTo := func(f *fake, to netip.AddrPort, numbers ...int) {
		block(numbers...)(f)
		for _, n := range numbers {
			f.translated[clusterIP(n)] = to
		}
	}
	for _, tc := range []struct {
		name   string
		do     func(*fake)
		reason string // empty if nothing fails
	}{
		{"the API server's address fails", block(1), "1 of 4 addresses do not answer that did before: default/kubernetes at 10.96.0.1:80 (refused)"},
		{"a Service fails", block(2), ""},
		{"Services of two namespaces fail", block(2, 3), "2 of 4 addresses"},
		{"endpoints of two namespaces do not answer", func(f *fake) { sendTo(f, endpoint(2), 2); sendTo(f, endpoint(3), 3) }, ""},
		{"endpoints of all namespaces do not answer", func(f *fake) { // the API server's endpoints are no author's
			for n := range 4 {
				sendTo(f, endpoint(n+1), n+1)
			}
		}, "1 of 4 addresses"},
		{"Services of two namespaces lead elsewhere", func(f *fake) { sendTo(f, endpoint(9), 2, 3) }, "2 of 4 addresses"},
		{"connection tracking cannot be observed", func(f *fake) { block(2, 3)(f); f.unobserved = true }, ""},
		{"Services of two namespaces change all the time", func(f *fake) { block(2, 3)(f); f.changing = []int{2, 3} }, ""},
		{"those that change are of other Services", func(f *fake) { block(2, 3)(f); f.changing = []int{1, 4} }, "2 of 4 addresses"},
		{"two of one namespace fail", block(3, 4), ""},
		{"all fail", block(1, 2, 3, 4), "4 of 4 addresses"},
		{"the endpoint answers no more", func(f *fake) { sendTo(f, endpoint(1), 1); f.refusing[endpoint(1)] = true }, ""},
		{"packets no longer reach the endpoint", func(f *fake) { block(1)(f); f.refusing[endpoint(1)] = true }, "1 of 4 addresses"},
		{"whether a packet reaches it is not known", func(f *fake) { block(1)(f); f.refusing[endpoint(1)], f.unobserved = true, true }, ""},
		{"the endpoint is a new one", func(f *fake) {
			block(1)(f)
			f.snapshot.Installed[0].Cluster, f.refusing[endpoint(9)] = []netip.AddrPort{endpoint(9)}, true
		}, ""},
		{"the endpoints went away", func(f *fake) { block(1)(f); f.snapshot.Installed[0].Cluster = nil }, ""},
		{"the Service went away", func(f *fake) { block(1)(f); f.snapshot.Installed = f.snapshot.Installed[1:] }, ""},
		{"ports of one namespace are refused", refuse(model.ProblemRefused, "a", "a", "a"), ""},
		{"ports of two namespaces are refused", refuse(model.ProblemRefused, "a", "b"), "the kernel refuses 4 of 4 Service ports"},
		{"changes of two namespaces wait for memory", refuse(model.ProblemMemory, "a", "b"), ""},
		{"changes do not reach the kernel", func(f *fake) { f.unhealthy = true }, "changes do not reach the kernel"},
		{"for two checks", func(f *fake) {
			f.unhealthy = true
			f.after(2*pollPeriod-time.Second, func() { f.unhealthy = false })
		}, ""},
		{"kube-proxy's rules of a family are gone", func(f *fake) { f.unhealthy, f.found.Parts = true, f.found.Parts[:1] }, ""},
		{"only the kubelet's rules are there", func(f *fake) {
			f.unhealthy = true
			for i := range f.found.Parts {
				f.found.Parts[i].Table, f.found.Parts[i].Chain = "nat", "KUBE-POSTROUTING"
			}
		}, ""},
		{"kube-proxy's rules are gone", func(f *fake) { f.unhealthy, f.found.Parts, f.found.Content = true, nil, 1 }, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, "default", "a", "b", "b")
			f.after(time.Minute+time.Second, func() { tc.do(f) })
			to := f.takeover(10 * time.Minute)
			to.direct = map[netip.AddrPort]bool{endpoint(1): true}
			took, failure := f.run(to, 5*time.Minute)
			switch {
			case tc.reason == "" && failure != nil:
				t.Errorf("%s: it fails: %v", tc.name, failure)
			case tc.reason != "" && (failure == nil || !strings.Contains(failure.Reason, tc.reason) || took > time.Minute+3*pollPeriod):
				t.Errorf("%s: after %s, failure %v, want %q", tc.name, took, failure, tc.reason)
			}
		})
	}
}

// TestOneOfManyEndpointsIsNoFailure has a Service whose every third connection fails.
func TestOneOfManyEndpointsIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default")
		to := f.takeover(10 * time.Minute)
		n := 0
		to.dial = func(_ context.Context, at netip.AddrPort) error {
			if n++; at == clusterIP(1) && n%3 == 0 {
				return errors.New("refused")
			}
			return nil
		}
		if _, failure := f.run(to, 11*time.Minute); failure != nil {
			t.Error(failure)
		}
	})
}
