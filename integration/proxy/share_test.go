package proxy

import (
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// TestWhatServicesShareStaysUntilTheLastIsGone removes one of two that need the
// same element: a pod that reaches itself, an address that refuses other ports.
func TestWhatServicesShareStaysUntilTheLastIsGone(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	left := service{name: "left", address: 1, endpoints: "pod-1"}
	twin := service{name: "twin", address: 1, endpoints: "pod-1", ports: everyProtocol()}
	for i := range twin.ports {
		twin.ports[i].port++
	}
	f.put("left.yaml", left)
	f.put("twin.yaml", twin)
	f.put("other.yaml", service{name: "other", address: 2, endpoints: "pod-1 pod-2"})
	d := start(t, l.Node, f.dir, podRanges).settled(w, f.dir)
	itself := func(t *testing.T) {
		eachWay(t, func(t *testing.T, w way) {
			answers(t, l.Pods[0].Host, w, left.at(w.family), []string{"pod-1"}, func(a lab.Answer) {
				if a.Seen.Addr() != l.Node.Gateway(w.family) {
					t.Errorf("pod-1 saw itself as %s", a.Seen)
				}
			})
			refused(t, l.Pods[0].Host, w, at(w.family, 1, port+2))
		})
	}
	t.Run("while all are there", itself)
	for _, name := range []string{"twin.yaml", "other.yaml"} {
		f.remove(name)
		d.settled(w, f.dir)
		t.Run("without "+name, itself)
	}
	eachWay(t, func(t *testing.T, w way) { refused(t, l.Pods[2].Host, w, at(w.family, 1, port+1)) })

	// Nothing is left of anybody when the last is gone.
	f.remove("left.yaml")
	d.settled(w, f.dir)
	for _, table := range w.read() {
		for name, set := range table.Sets {
			id, known := nft.SetNamed(model.IPv4, name)
			if !known || id.Kind >= nft.SetEndpoints && id.Kind != nft.SetConnections { // those that every table has come first
				t.Errorf("set %s is left", name)
			}
			if len(set.Elements) > 0 && id.Kind != nft.SetNodeIPs {
				t.Errorf("set %s still has %v", name, set.Elements)
			}
		}
	}
}
