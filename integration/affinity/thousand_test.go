package affinity

import (
	"fmt"
	"slices"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// thousand are the first clients of these tests, newcomer later ones.
var (
	thousand = crowd{0, 1000}
	newcomer = crowd{1000, 400}
)

// TestThousandClientsKeepTheirEndpoints restarts the proxy and scales a Service, from 20
// endpoints on.
func TestThousandClientsKeepTheirEndpoints(t *testing.T) {
	l, servers := daemon.NewLab(t, 18, 7)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers[:20], Affinity: long}
	f.Put("web", s)
	d := daemon.Start(t, l.Node, f)
	had := newMemory()
	look := func(t *testing.T, w daemon.Transport, c crowd) {
		t.Helper()
		keep(t, c.of(thousand, *had[w]), survey(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), c))
	}
	all := func(t *testing.T, w daemon.Transport) { t.Helper(); look(t, w, thousand) }
	some := func(t *testing.T, w daemon.Transport) { t.Helper(); look(t, w, thousand.some(100)) }

	step(t, "at first they spread", func(t *testing.T, w daemon.Transport) {
		*had[w] = survey(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), thousand)
		reaches(t, *had[w], s.Endpoints)
	})
	d.Stop()
	step(t, "without the proxy", some)
	d = daemon.Start(t, l.Node, f)
	step(t, "after a restart", all)
	d.Kill()
	d = daemon.Start(t, l.Node, f)
	step(t, "after it was killed", some)
	for n := 21; n <= 25; n++ {
		s.Endpoints = servers[:n]
		d.After(func() { f.Put("web", s) })
		step(t, fmt.Sprintf("with %d endpoints", n), some)
	}
	step(t, "after all changes", all)
	step(t, "newcomers reach all", func(t *testing.T, w daemon.Transport) {
		reaches(t, survey(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), newcomer), s.Endpoints)
	})

	s.Endpoints = slices.Concat(servers[3:10], servers[12:])
	d.After(func() { f.Put("web", s) })
	step(t, "with 20 endpoints again", func(t *testing.T, w daemon.Transport) {
		*had[w] = leave(t, l, w, s, thousand, *had[w])
	})
	step(t, "moved clients stay", some)
}

// reaches checks that the clients, which are many, got all endpoints.
func reaches(t *testing.T, by []string, endpoints []*lab.Host) {
	t.Helper()
	for _, e := range endpoints {
		if !slices.Contains(by, e.Name) {
			t.Errorf("none of %d clients got %s", len(by), e)
		}
	}
}

// leave connects a crowd after endpoints were removed, each client once, and returns their
// endpoints. Only the clients of those that were removed may have moved, to several others,
// and they must have done so with this connection.
func leave(t *testing.T, l *lab.Lab, w daemon.Transport, s daemon.Service, c crowd, before []string) []string {
	t.Helper()
	after := survey(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), c)
	onlyTheLostMove(t, before, after, names(s.Endpoints))
	return after
}

func onlyTheLostMove(t *testing.T, before, after []string, current map[string]bool) {
	t.Helper()
	to, lost := map[string]bool{}, 0
	for i := range before {
		if !current[after[i]] || current[before[i]] && after[i] != before[i] {
			t.Fatalf("a client of %s moved to %s", before[i], after[i])
		}
		if !current[before[i]] {
			to[after[i]] = true
			lost++
		}
	}
	if lost == 0 || len(to) < 2 {
		t.Errorf("%d clients moved to %d endpoints", lost, len(to))
	}
}

// TestAffinitySurvivesSlotLimit has more endpoints than slots, then fewer, then more
// again, so that the Service changes between the two kinds of maps.
func TestAffinitySurvivesSlotLimit(t *testing.T) {
	t.Parallel()
	const times = 40
	l, servers := daemon.NewLab(t, 5, 2)
	for _, h := range servers {
		for n := range uint16(times - 1) {
			if err := h.ServeAll(daemon.TargetPort + 1 + n); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Affinity: long, Times: times}
	f.Put("web", s)
	d := daemon.Start(t, l.Node, f)
	clients, had := crowd{0, 150}, newMemory() // 21 lose their endpoint, give or take 4
	check := func(t *testing.T, w daemon.Transport) {
		for range 2 {
			keep(t, *had[w], survey(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), clients))
		}
	}
	step(t, "280 endpoints", func(t *testing.T, w daemon.Transport) {
		*had[w] = survey(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), clients)
		check(t, w)
	})
	s.Endpoints = servers[:6]
	d.After(func() { f.Put("web", s) })
	step(t, "240 endpoints", func(t *testing.T, w daemon.Transport) {
		*had[w] = leave(t, l, w, s, clients, *had[w])
		check(t, w)
	})
	s.Endpoints = servers
	d.After(func() { f.Put("web", s) })
	step(t, "280 again", check)
}
