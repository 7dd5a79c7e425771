package security

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// answer is how long a response may take on a busy machine.
const answer = 5 * time.Second

// newLab returns a lab with two pods, of which the second serves all protocols, and a folder of
// manifests.
func newLab(t *testing.T) (*lab.Lab, *daemon.Folder) {
	t.Helper()
	t.Parallel()
	l := labtest.New(t, lab.Options{Pods: 2})
	daemon.Serve(t, 1, l.Pods[1])
	return l, daemon.NewFolder(t, l)
}

func second(l *lab.Lab, name string, number int) daemon.Service {
	return daemon.Service{Name: name, Number: number, Endpoints: []*lab.Host{l.Pods[1].Host}}
}

// balanced returns a Service of the second pod for load balancers, with a health check node port.
func balanced(l *lab.Lab, name string, number int, port int32) daemon.Service {
	s := second(l, name, number)
	s.Kinds, s.LocalOutside = []model.Kind{model.KindNodePort, model.KindLoadBalancerIP}, true
	s.Edit = func(o *corev1.Service) { o.Spec.HealthCheckNodePort = port }
	return s
}

// externalIPs returns an edit that claims addresses.
func externalIPs(addrs ...netip.Addr) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, a := range addrs {
			s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, a.String())
		}
	}
}

func addrsOf(h *lab.Host) []netip.Addr { return []netip.Addr{h.Addr(model.IPv4), h.Addr(model.IPv6)} }

func clients(l *lab.Lab) []*lab.Host { return []*lab.Host{l.Pods[0].Host, l.Node.Host, l.Outside} }

// answered checks that the host of that name responds.
func answered(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort, by string) {
	t.Helper()
	got, err := from.Ask(w.Protocol, to, answer)
	if err != nil || got.By != by {
		t.Errorf("%s asks %s over %s: %s, %v; want a response of %q", from, to, w, got, err, by)
	}
}

// refused checks that a connection is refused, not dropped.
func refused(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort) {
	t.Helper()
	got, err := from.Ask(w.Protocol, to, answer)
	if err != nil || got.Outcome != lab.Refused {
		t.Errorf("%s asks %s over %s: %s, %v; want it refused", from, to, w, got, err)
	}
}
