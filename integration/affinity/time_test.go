package affinity

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// short is an affinity that a test can wait for.
const short = 2 * time.Second

// TestAffinityTimesOut switches affinity on and off, and makes it short. Then it has three kinds of
// clients: those that make new connections regularly, those that make none, and those that use an
// established one, which does not extend affinity.
func TestAffinityTimesOut(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 5, 2)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers}
	f.Put("web", s)
	d := daemon.Start(t, l.Node, f)
	busy, idle, talking := crowd{0, 15}, crowd{100, 30}, crowd{200, 30}
	busyHad, idleHad, talkingHad := newMemory(), newMemory(), newMemory()
	look := func(t *testing.T, w daemon.Transport, c crowd) []string {
		t.Helper()
		return survey(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), c)
	}
	unbound := func(t *testing.T, w daemon.Transport) { free(t, look(t, w, idle), look(t, w, idle)) }
	bound := func(t *testing.T, w daemon.Transport) {
		*idleHad[w] = look(t, w, idle)
		keep(t, *idleHad[w], look(t, w, idle))
	}
	to := func(affinity time.Duration) {
		s.Affinity = affinity
		d.After(func() { f.Put("web", s) })
	}
	step(t, "without", unbound)
	to(long)
	step(t, "switched on", bound)
	to(0)
	step(t, "switched off", unbound)
	to(long)
	step(t, "on again", bound)
	to(short)
	flows := map[daemon.Transport][]*lab.Flow{}
	for _, w := range daemon.Transports() {
		flows[w] = openFlows(t, l, w, s, talking)
	}
	last := time.Now()
	step(t, "at first", func(t *testing.T, w daemon.Transport) {
		keep(t, *idleHad[w], look(t, w, idle)) // the long one still runs
		*talkingHad[w], *busyHad[w] = talk(t, flows[w]), look(t, w, busy)
	})
	const longest = time.Minute // of a machine that is too busy to connect again in time
	for began, checked := time.Now(), 0; time.Since(began) < short*3/2 || checked < 3 && time.Since(began) < longest; {
		<-time.After(short / 5)
		now := time.Now()
		step(t, "some go on", func(t *testing.T, w daemon.Transport) {
			keep(t, *talkingHad[w], talk(t, flows[w]))
			again := look(t, w, busy)
			if time.Since(last) < short { // otherwise the machine was too busy
				keep(t, *busyHad[w], again)
			}
			*busyHad[w] = again
		})
		if time.Since(last) < short {
			checked++
		}
		last = now
	}
	step(t, "the others are free", func(t *testing.T, w daemon.Transport) {
		free(t, *idleHad[w], look(t, w, idle))
		free(t, *talkingHad[w], look(t, w, talking))
	})
}

func openFlows(t *testing.T, l *lab.Lab, w daemon.Transport, s daemon.Service, c crowd) (flows []*lab.Flow) {
	t.Helper()
	for n := range c.count {
		from := netip.AddrPortFrom(daemon.ClientAddr(w.Family, c.first+n), l.Outside.FreshPort())
		flow, err := l.Outside.Flow(w.Protocol, from, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0))
		if err != nil {
			t.Fatal(err)
		}
		flows = append(flows, flow)
	}
	return flows
}

func talk(t *testing.T, flows []*lab.Flow) (by []string) {
	t.Helper()
	for _, f := range flows {
		a, err := f.Ask(answer)
		if err != nil || a.Outcome != lab.Answered {
			t.Fatalf("request on an established flow: %s, %v", a, err)
		}
		by = append(by, a.By)
	}
	return by
}

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
