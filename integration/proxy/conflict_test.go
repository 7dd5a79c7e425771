package proxy

import (
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
)

// only checks that over each transport and for all clients, these hosts answer, and no
// others.
func only(t *testing.T, l *lab.Lab, s daemon.Service, by string) {
	t.Helper()
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, from := range everyone(l) {
			answers(t, from, w, s.ClusterAddrPort(w.Family), strings.Fields(by), nil)
		}
	})
}

// TestOlderServiceGetsTheAddress has two Services with the same ClusterIP, in
// situations where the younger could get it.
func TestOlderServiceGetsTheAddress(t *testing.T) {
	l, f, w := newScene(t)
	// By name and by file, the younger one comes first.
	older := daemon.Service{Name: "older", Number: 1, EndpointSpec: "pod-1", Created: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
	younger := daemon.Service{Name: "a-younger", Number: 1, EndpointSpec: "pod-2", Created: older.Created.Add(time.Second)}
	lost := func(d *daemon.Daemon, from int) {
		t.Helper()
		// One line for all transports.
		m := model.Match{Family: model.IPv4, Addr: clusterIP(model.IPv4, 1), Protocol: model.TCP, Port: daemon.Port}
		d.Logged(from, "another Service holds the address and port", func(e process.Entry) bool {
			return e["match"] == m.String() && e["winner"] == "default/older:tcp-0" && e["loser"] == "default/a-younger:tcp-0" &&
				e.Number("more") == len(daemon.Transports())-1
		})
	}
	f.Put("a", younger)
	d := startAndSettle(t, w, l, f, daemon.PodRanges)
	only(t, l, younger, "pod-2")

	before := d.Log.Len()
	f.Put("b", older)
	w.settles(f, daemon.PodRanges)
	only(t, l, older, "pod-1")
	lost(d, before)

	younger.EndpointSpec = "pod-2 remote-1" // a change of the younger one makes no difference
	f.Put("a", younger)
	w.settles(f, daemon.PodRanges)
	only(t, l, older, "pod-1")

	d.Stop()
	d = start(t, l.Node, f, daemon.PodRanges)
	lost(d, 0)
	only(t, l, older, "pod-1")

	younger.EndpointSpec = "pod-2"
	f.Put("a", younger)
	f.Remove("b")
	w.settles(f, daemon.PodRanges)
	only(t, l, younger, "pod-2")

	f.Put("b", older)
	w.settles(f, daemon.PodRanges)
	only(t, l, older, "pod-1")
}
