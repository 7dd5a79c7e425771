package affinity

import (
	"net/netip"
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
