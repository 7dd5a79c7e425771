package proxy

import (
	"fmt"
	"testing"
)

// TestOneEndpointCostsTheSameAmongManyServices reads in the log what a change
// took.
func TestOneEndpointCostsTheSameAmongManyServices(t *testing.T) {
	l := newLab(t)
	sent := map[int]entry{}
	for _, n := range []int{10, 1000} {
		f := newFolder(t, l)
		var others []service
		for i := range n - 1 {
			others = append(others, service{name: fmt.Sprintf("other-%d", i), address: 2 + i, endpoints: "pod-1 pod-2 remote-1"})
		}
		f.put("others.yaml", others...)
		s := service{name: "web", address: 1, endpoints: "pod-1 remote-1"}
		f.put("web.yaml", s)
		d := start(t, l.Node, f.dir, podRanges)
		d.logged(0, "applied", func(e entry) bool { return e.number("services") == n })
		before := d.lines()
		s.endpoints = "pod-2 remote-1"
		f.put("web.yaml", s)
		sent[n] = d.logged(before, "applied", func(entry) bool { return true })
		d.stop()
	}
	few, many := sent[10], sent[1000]
	for _, field := range []string{"bytes", "messages", "added", "deleted", "objects", "batches"} {
		if few.number(field) != many.number(field) {
			t.Errorf("%s: %d among 10 Services, %d among 1000", field, few.number(field), many.number(field))
		}
	}
	want := len(ways()) // an endpoint for each protocol and family
	if many.number("added") != want || many.number("deleted") != want || many.number("bytes") == 0 || many.number("messages") == 0 {
		t.Errorf("%v, want %d elements replaced, in some messages and bytes", many, want)
	}
}
