package takeover

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestReportSaysWhetherKubeProxyIsStoppedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default", "a")
		to := f.takeover(10 * time.Minute)
		f.after(time.Minute, func() { f.refusing[clusterIP(1)], f.refusing[clusterIP(2)] = true, true })
		_, failure := f.run(to, 10*time.Minute)
		if failure == nil {
			t.Fatal("the probation does not fail")
		}
		delete(f.refusing, clusterIP(1))
		if got := to.AskAgain(t.Context(), failure); got != "a/web at 10.96.0.2:80 does not answer through kube-proxy's rules either "+
			"(refused): kube-vmap explain shows why" {
			t.Errorf("with one that does not answer: %q", got)
		}
		delete(f.refusing, clusterIP(2))
		if got := to.AskAgain(t.Context(), failure); got != "through kube-proxy's rules they answer now" {
			t.Errorf("when all answer: %q", got)
		}
		if got := to.AskAgain(t.Context(), &FailedError{Reason: "another one"}); got != "" {
			t.Errorf("without addresses: %q", got)
		}
	})
}

func TestReturnedNodeReportsWhatKubeProxyDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "default")
		f.state = storedState{returned: "a time reason=a reason"}
		to := f.takeover(10 * time.Minute)
		to.starts = 1
		var failure *FailedError
		if err := to.Start(); !errors.As(err, &failure) {
			t.Fatalf("it starts with %v", err)
		}
		yields := 0
		expect := func(want string, yielded bool) func() {
			return func() {
				p := to.Problems()
				if to.State() != StateReturned || to.NotReady() != "this node was returned to kube-proxy" || len(p) != 1 || !strings.Contains(p[0].Text, "reason=a reason; "+want) {
					t.Errorf("state %s, not ready %q, %+v; want %q", to.State(), to.NotReady(), p, want)
				}
				if yielded != (yields > 0) {
					t.Errorf("%s: yielded %d times", want, yields)
				}
			}
		}
		f.after(time.Second, expect("kube-proxy's rules are in effect, and follow no changes until it runs", false))
		f.after(10*time.Second, func() { f.found.Content++ })
		f.after(18*time.Second, expect("kube-proxy's rules are in effect, and it seems to run: it writes rules", true))
		ended := 20*time.Second + awakePeriod
		f.after(ended, expect("kube-proxy's rules are in effect, and follow no changes until it runs", true))
		f.after(ended+10*time.Second, func() { f.found.Parts = nil })
		f.after(ended+18*time.Second, expect("kube-proxy has no rules here", true))
		f.after(ended+30*time.Second, func() {
			to.Stopped()
			if f.state.returned == "" {
				t.Error("a stop forgets that the node was returned")
			}
			f.state = storedState{}
		})
		yield := func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			yields++
		}
		if err := to.Stay(t.Context(), failure, yield); !errors.Is(err, errAgain) {
			t.Errorf("it ends with %v", err)
		}
	})
}
