package proxy

import (
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// TestSharedElementsRemainUntilTheLastServiceIsGone removes one of two
// Services that need the same element: for a pod that reaches itself, and for an address
// that refuses other ports.
func TestSharedElementsRemainUntilTheLastServiceIsGone(t *testing.T) {
	l, f, w := newScene(t)
	left := daemon.Service{Name: "left", Number: 1, EndpointSpec: "pod-1"}
	twin := daemon.Service{Name: "twin", Number: 1, EndpointSpec: "pod-1", ServicePorts: daemon.EveryProtocol("", daemon.Port, daemon.TargetPort, 0)}
	for i := range twin.ServicePorts {
		twin.ServicePorts[i].Port++
	}
	f.Put("left", left)
	f.Put("twin", twin)
	f.Put("other", daemon.Service{Name: "other", Number: 2, EndpointSpec: "pod-1 pod-2"})
	startAndSettle(t, w, l, f, daemon.PodRanges)
	itself := func(t *testing.T) {
		daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
			answers(t, l.Pods[0].Host, w, left.ClusterAddrPort(w.Family), []string{"pod-1"}, func(a lab.Answer) {
				if a.Seen.Addr() != l.Node.Gateway(w.Family) {
					t.Errorf("pod-1 saw itself as %s", a.Seen)
				}
			})
			refused(t, l.Pods[0].Host, w, at(w.Family, 1, daemon.Port+2))
		})
	}
	t.Run("while all are there", itself)
	for _, name := range []string{"twin", "other"} {
		f.Remove(name)
		w.settles(f, daemon.PodRanges)
		t.Run("without "+name, itself)
	}
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) { refused(t, l.Pods[2].Host, w, at(w.Family, 1, daemon.Port+1)) })

	// Nothing is left when the last one is gone.
	f.Remove("left")
	w.settles(f, daemon.PodRanges)
	for _, table := range w.read() {
		for name, set := range table.Sets {
			id, known := nft.SetNamed(model.IPv4, name)
			counts := id.Kind == nft.SetConnections || id.Kind == nft.SetUncounted
			if !known || id.Kind >= nft.SetEndpoints && !counts { // those of every table come first
				t.Errorf("set %s is left", name)
			}
			if len(set.Elements) > 0 && id.Kind != nft.SetNodeIPs {
				t.Errorf("set %s still has %v", name, set.Elements)
			}
		}
	}
}
