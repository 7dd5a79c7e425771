package traffic

import (
	"context"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// TestCrowdReportsLostAnswers has two pods ask a third one over every way, without any Service. Its
// servers end.
func TestCrowdReportsLostAnswers(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 3})
	to := Target{Name: "pod-1", Port: 8080}
	var servers []*lab.Server
	for _, p := range model.Protocols {
		s, err := l.Pods[0].Serve(p, to.Port)
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, s)
	}
	for _, f := range model.Families {
		to.Addrs[f] = l.Pods[0].Addr(f)
	}
	one := From(l.Pods[1].Host)
	crowd := Start(one, From(l.Pods[2].Host))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := crowd.Add(ctx, to); err != nil {
		t.Fatal(err)
	}
	if err := one.Comes(to, lab.Refused, Timeout); err == nil || !strings.Contains(err.Error(), "unexpected outcome") {
		t.Errorf("who answers refuses: %v", err)
	}
	for _, s := range servers {
		s.Close()
	}
	eventually.Holds(t, "failed requests of each pod over each way", func() bool {
		crowd.mu.Lock()
		defer crowd.mu.Unlock()
		return len(crowd.failing) == 2*len(daemon.Transports())
	})
	questions, err := crowd.Stop()
	for _, w := range daemon.Transports() {
		if err == nil || !strings.Contains(err.Error(), w.String()) {
			t.Errorf("%d requests: %v, want an error about %s", questions, err, w)
		}
	}
	if err := one.Comes(to, lab.Refused, Timeout); err != nil {
		t.Error(err)
	}
}

func TestPulseDetectsPauses(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	var p pulse
	for _, ms := range []int{0, 20, 40, 1040, 1060, 1080} {
		p.beatAt(at(ms))
	}
	for _, c := range []struct {
		from, to int
		want     bool
	}{{0, 30, false}, {30, 1050, true}, {500, 600, true}, {0, 900, true}, {1000, 1100, true}, {1045, 1090, false}, {1045, 2000, true}} {
		if got := p.stopped(at(c.from), at(c.to)); got != c.want {
			t.Errorf("between %d and %d ms it stopped: %t", c.from, c.to, got)
		}
	}
}
