package takeover

import (
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
