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

// TestThousandClientsKeepTheirEndpoints restarts the proxy and scales a Service, from 15
// endpoints on; 17 have other chains than 16.
func TestThousandClientsKeepTheirEndpoints(t *testing.T) {
	l, servers := daemon.NewLab(t, 18, 7)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers[:15], Affinity: long}
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
	for _, n := range []int{16, 17, 25} {
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
	step(t, "with 20 endpoints", func(t *testing.T, w daemon.Transport) {
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
