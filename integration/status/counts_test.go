package status

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

// each is the number of connections of each protocol and family to each kind of frontend.
const each = 3

// TestConnectionsAreThoseThatWereMade connects to every kind of frontend of a Service, in both
// families and over all protocols, and reads the numbers from the daemon and, after its end,
// from the kernel.
func TestConnectionsAreThoseThatWereMade(t *testing.T) {
	l := newLab(t)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{
		Name: "web", Number: 1, Kinds: daemon.Kinds[1:],
		Endpoints: []*lab.Host{l.Pods[0].Host, l.Pods[1].Host, l.RemotePods[0].Host},
	}
	f.Put("web", s, daemon.Service{Name: "other", Number: 2, Endpoints: s.Endpoints})
	d := daemon.Start(t, l.Node, f)
	for _, w := range daemon.Transports() {
		for _, kind := range daemon.Kinds {
			for range each {
				connect(t, l.Outside, w, s.AddrPort(l.Node, w.Family, kind, 0))
			}
		}
	}
	check := func(d *nodestatus.Document) {
		t.Helper()
		for _, service := range d.Services {
			for _, p := range service.Ports {
				checkPort(t, d, p, service.Name == "web")
			}
		}
	}
	check(document(t, l.Node.Host))
	check(document(t, l.Node.Host, "--kernel"))
	d.Kill()
	check(document(t, l.Node.Host))
}

// connect opens one connection.
func connect(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort) {
	t.Helper()
	if got, err := from.Ask(w.Protocol, to, 10*time.Second); err != nil || got.Outcome != lab.Answered {
		t.Fatalf("%s asks %s over %s: %s, %v", from, to, w, got, err)
	}
}

// checkPort checks all connections of a port. The kernel may forget closed ones, but not that
// soon.
func checkPort(t *testing.T, d *nodestatus.Document, p nodestatus.Port, asked bool) {
	t.Helper()
	n := 0
	if asked {
		n = each
	}
	for _, f := range p.Frontends {
		if f.Connections != uint64(n) || f.Active > n || asked && p.Protocol == "UDP" && f.Active != n {
			t.Errorf("by the %s, %s %s %s %s has %+v, want %d", d.Source, p.Family, p.Protocol, f.Kind, f.Address, f.Traffic, n)
		}
	}
	var sum nodestatus.Traffic
	for _, e := range p.Endpoints {
		sum.Connections += e.Connections
		sum.Active += e.Active
	}
	if all := uint64(n * len(p.Frontends)); sum != p.Traffic || sum.Connections != all {
		t.Errorf("by the %s, endpoints of %s %s have %+v, the port %+v, want %d", d.Source, p.Family, p.Protocol, sum, p.Traffic, all)
	}
	if asked && len(p.Frontends) != len(daemon.Kinds) {
		t.Errorf("%s %s has %d frontends", p.Family, p.Protocol, len(p.Frontends))
	}
}
