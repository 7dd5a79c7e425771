package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/sync"
)

// TestNodeIsQueuedBeforeWaitersContinue checks that the first burst has the Node and its
// pod CIDRs when the source stops waiting for them.
func TestNodeIsQueuedBeforeWaitersContinue(t *testing.T) {
	o, p := newOwnNode("node-1"), newEventQueue()
	s := newStore("Node", nodeConverter("node-1"), func(n objectName, value any) sync.Event {
		e := o.event(n, value)
		if isClosed(o.found) || isClosed(o.hasPodRanges) {
			t.Error("found or hasPodRanges is closed before the event is queued")
		}
		return e
	}, p)
	s.onChange = o.closeWaiters
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "u"},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.1.0.0/24", "fd00:1::/64"}},
	}
	if err := s.Update(node); err != nil {
		t.Fatal(err)
	}
	if !isClosed(o.found) || !isClosed(o.hasPodRanges) {
		t.Error("found or hasPodRanges is not closed")
	}
	if events := p.take(); len(events) != 1 || !events[0].(sync.SetNode).Node.PodCIDRs[0].IsValid() {
		t.Errorf("queued: %v", events)
	}
}
