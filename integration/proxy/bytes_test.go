package proxy

import (
	"fmt"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/process"
)

// TestEndpointChangeCostsTheSameAmongManyServices reads the sizes of a change from the
// log.
func TestEndpointChangeCostsTheSameAmongManyServices(t *testing.T) {
	l := newLab(t)
	sent := map[int]process.Entry{}
	for _, n := range []int{10, 1000} {
		f := daemon.EmptyFolder(t, l)
		var others []daemon.Service
		for i := range n - 1 {
			others = append(others, daemon.Service{Name: fmt.Sprintf("other-%d", i), Number: 2 + i, EndpointSpec: "pod-1 pod-2 remote-1"})
		}
		f.Put("others", others...)
		s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 remote-1"}
		f.Put("web", s)
		d := start(t, l.Node, f, daemon.PodRanges)
		d.Logged(0, "applied", func(e process.Entry) bool { return e.Number("services") == n })
		before := d.Log.Len()
		s.EndpointSpec = "pod-2 remote-1"
		f.Put("web", s)
		sent[n] = d.Logged(before, "applied", func(process.Entry) bool { return true })
		d.Stop()
	}
	few, many := sent[10], sent[1000]
	for _, field := range []string{"bytes", "messages", "added", "deleted", "objects", "batches"} {
		if few.Number(field) != many.Number(field) {
			t.Errorf("%s: %d among 10 Services, %d among 1000", field, few.Number(field), many.Number(field))
		}
	}
	want := len(daemon.Transports()) // an endpoint for each protocol and family
	if many.Number("added") != want || many.Number("deleted") != want || many.Number("bytes") == 0 || many.Number("messages") == 0 {
		t.Errorf("%v, want %d elements replaced, in some messages and bytes", many, want)
	}
}
