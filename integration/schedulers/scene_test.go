package schedulers

import (
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// scene is a Service with a scheduler, behind a proxy on node-1.
type scene struct {
	lab     *lab.Lab
	servers []*lab.Host
	folder  *daemon.Folder
	service daemon.Service
	proxy   *daemon.Daemon
}

// newScene returns a scene with a number of endpoints, on both nodes, and one more pod,
// the last one on node-1.
func newScene(t *testing.T, scheduler string, endpoints int) scene {
	t.Helper()
	t.Parallel()
	here := endpoints / 2
	l, servers := daemon.NewLab(t, here+1, endpoints-here)
	servers = append(servers[:here:here], servers[here+1:]...)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Scheduler: scheduler, Kinds: daemon.Kinds}
	f.Put("web", s)
	return scene{l, servers, f, s, daemon.Start(t, l.Node, f)}
}

// at returns the address of the Service, at node-1.
func (s scene) at(w daemon.Transport, k model.Kind) netip.AddrPort {
	return s.service.AddrPort(s.lab.Node, w.Family, k, 0)
}
