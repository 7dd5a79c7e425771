package traffic_test

import (
	"context"
	"errors"
	"strings"
	stdsync "sync"
	"sync/atomic"
	"testing"
	"time"

	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

const port = 8080

// direct returns a pod that is asked without any Service.
func direct(p *lab.Pod) traffic.Target {
	t := traffic.Target{Name: p.Name, Port: port}
	for _, f := range model.Families {
		t.Addrs[f] = p.Addr(f)
	}
	return t
}

// asking returns a crowd of two pods that ask a third one over every way.
func asking(t *testing.T, change func(*traffic.Target)) (*traffic.Crowd, *traffic.Asked, []*lab.Server) {
	t.Helper()
	l := labtest.New(t, lab.Options{Pods: 3})
	var servers []*lab.Server
	for _, p := range model.Protocols {
		s, err := l.Pods[0].Serve(p, port)
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, s)
	}
	to := direct(l.Pods[0])
	change(&to)
	crowd := traffic.Start(traffic.From(l.Pods[1].Host), traffic.From(l.Pods[2].Host))
	return crowd, crowd.Add(to), servers
}

func await(t *testing.T, a *traffic.Asked, within time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return a.Await(ctx)
}

const patience = 20 * time.Second

func TestCrowdReportsLostAnswers(t *testing.T) {
	for i, p := range model.Protocols {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			crowd, asked, servers := asking(t, func(*traffic.Target) {})
			if err := await(t, asked, patience); err != nil {
				t.Fatal(err)
			}
			servers[i].Close()
			<-time.After(500 * time.Millisecond) // in which each asks several times
			asked.Remove()
			questions, err := crowd.Stop()
			for _, f := range model.Families {
				if w := (daemon.Transport{Protocol: p, Family: f}); err == nil || !strings.Contains(err.Error(), w.String()) {
					t.Errorf("%d requests: %v, want an error about %s", questions, err, w)
				}
			}
		})
	}
}

func TestCrowdStopsAskingRemovedTargets(t *testing.T) {
	crowd, asked, servers := asking(t, func(*traffic.Target) {})
	if err := await(t, asked, patience); err != nil {
		t.Fatal(err)
	}
	asked.Remove()
	for _, s := range servers {
		s.Close()
	}
	<-time.After(200 * time.Millisecond)
	if questions, err := crowd.Stop(); err != nil || questions < 2*len(daemon.Transports()) {
		t.Errorf("%d requests: %v", questions, err)
	}
}

func TestLossesBeforeTheFirstAnswerAreNoFailures(t *testing.T) {
	crowd, asked, _ := asking(t, func(to *traffic.Target) { to.Port++ })
	if err := await(t, asked, 300*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Await of a target that does not answer: %v", err)
	}
	asked.Remove()
	if questions, err := crowd.Stop(); err != nil || questions != 0 {
		t.Errorf("%d requests: %v", questions, err)
	}
}

func TestCheckDecidesAboutAnAnswer(t *testing.T) {
	var late atomic.Bool
	var once stdsync.Once
	objected := make(chan struct{})
	crowd, asked, _ := asking(t, func(to *traffic.Target) {
		to.Check = func(a lab.Answer, _ time.Time) error {
			if a.By == "pod-1" && !late.Load() {
				return nil
			}
			once.Do(func() { close(objected) })
			return errors.New("late")
		}
	})
	if err := await(t, asked, patience); err != nil {
		t.Fatal(err)
	}
	late.Store(true)
	select {
	case <-objected:
	case <-time.After(patience):
	}
	asked.Remove()
	if _, err := crowd.Stop(); err == nil || !strings.Contains(err.Error(), "late") {
		t.Errorf("the error is %v", err)
	}
}
