package traffic_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
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

// TestCrowdReportsLostAnswers has two pods ask a third one over every way, which ends its server of
// one protocol.
func TestCrowdReportsLostAnswers(t *testing.T) {
	for _, p := range model.Protocols {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			l := labtest.New(t, lab.Options{Pods: 3})
			servers := map[model.Protocol]*lab.Server{}
			for _, p := range model.Protocols {
				s, err := l.Pods[0].Serve(p, port)
				if err != nil {
					t.Fatal(err)
				}
				servers[p] = s
			}
			crowd := traffic.Start(traffic.From(l.Pods[1].Host), traffic.From(l.Pods[2].Host))
			asked := crowd.Add(direct(l.Pods[0]))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := asked.Await(ctx); err != nil {
				t.Fatal(err)
			}
			servers[p].Close()
			both := 2 * len(model.Families) // pods that ask
			eventually.Holds(t, "failed requests of each pod over each family", func() bool { return crowd.Failing() >= both })
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
