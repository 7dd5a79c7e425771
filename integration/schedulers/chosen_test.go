package schedulers

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// TestSchedulerIsFromAnnotationOrFlag has Services that differ only in the annotation,
// and recognizes their schedulers by their answers.
func TestSchedulerIsFromAnnotationOrFlag(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 3, 2)
	f := daemon.NewFolder(t, l)
	annotations := []string{"", "random", "rr", "sh", "mh"}
	var services []daemon.Service
	for i, a := range annotations {
		services = append(services, daemon.Service{
			Name: fmt.Sprintf("web-%d", i), Number: i + 1, Endpoints: servers, Scheduler: a,
		})
	}
	f.Put("web", services...)
	for _, flag := range []string{"", "random", "rr", "sh", "mh"} {
		t.Run("--ipvs-scheduler="+flag, func(t *testing.T) {
			var flags []string
			if flag != "" {
				flags = []string{"--ipvs-scheduler=" + flag}
			}
			s := scene{lab: l, servers: servers, folder: f, proxy: daemon.Start(t, l.Node, f, flags...)}
			eachInTurn(t, func(t *testing.T, w daemon.Transport) {
				for _, s.service = range services {
					want := s.service.Scheduler
					if want == "" {
						want = flag
					}
					if want == "" {
						want = "random"
					}
					if got := s.recognize(t, w); got != want {
						t.Errorf("annotation %q: this is %s, want %s", s.service.Scheduler, got, want)
					}
				}
			})
			s.proxy.Stop()
		})
	}
}

// recognize returns the scheduler of a Service, according to its answers. It is
// practically impossible that one looks like another by chance.
func (s scene) recognize(t *testing.T, w daemon.Transport) string {
	t.Helper()
	first, again := s.inTurn(t, w), s.inTurn(t, w)
	n := len(s.servers)
	switch {
	case len(tally(first)) == 1:
		return "sh"
	case len(tally(first)) == n && slices.Equal(first[n:], first[:len(first)-n]):
		return "rr"
	case slices.Equal(first, again):
		return "mh"
	}
	return "random"
}

// inTurn asks from one port of one client after the other.
func (s scene) inTurn(t *testing.T, w daemon.Transport) (by []string) {
	t.Helper()
	forget(t, s.lab)
	for n := range uint16(20) {
		name, err := ask(s.lab.Outside, w, netip.AddrPortFrom(netip.Addr{}, firstPort+n), s.at(w, model.KindClusterIP))
		if err != nil {
			t.Fatal(err)
		}
		by = append(by, name)
	}
	return by
}
