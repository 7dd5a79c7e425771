package resolve

import (
	"net/netip"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestEndpointIsThePodOfAnySlice has a slice of an author that names no pod, as one that sets
// weights may do, beside that of the controller.
func TestEndpointIsThePodOfAnySlice(t *testing.T) {
	controllers := *slice("web", "cart-0", "10.244.1.7", "node-1")
	authors := *change(slice("web", "", "10.244.1.7", "node-1"), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef = nil })
	for _, list := range [][]discoveryv1.EndpointSlice{{controllers, authors}, {authors, controllers}} {
		if o := EndpointObjects(list)[netip.MustParseAddr("10.244.1.7")]; o.Kind != KindPod || o.Name != "cart-0" {
			t.Errorf("%+v, want the pod cart-0", o)
		}
	}
	placed, unplaced := authors, *authors.DeepCopy()
	unplaced.Endpoints[0].NodeName = nil
	for _, list := range [][]discoveryv1.EndpointSlice{{placed, unplaced}, {unplaced, placed}} {
		if o := EndpointObjects(list)[netip.MustParseAddr("10.244.1.7")]; o.Node != "node-1" {
			t.Errorf("%+v, want one on node-1", o)
		}
	}
}
