package top

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/kubectl-vmap/nodes"
)

func TestFailingNodesAreAskedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := source{interval: 2 * time.Second, failing: map[string]failure{}}
		n := nodes.Node{Name: "dead", Pod: "one"}
		for _, want := range []int{4, 8, 16, 32, 64, 120, 120} {
			f := s.fail(n, io.EOF)
			if got := time.Until(f.next); got != time.Duration(want)*time.Second {
				t.Errorf("asked again after %s, want %d s", got, want)
			}
			<-time.After(time.Until(f.next))
		}
		if got := s.fail(n, io.EOF).describe(n).Error(); got != "dead: not answering for 6m4s: EOF" {
			t.Error(got)
		}
		n.Pod = "another"
		if f := s.fail(n, io.EOF); f.count != 1 || f.describe(n).Error() != "dead: EOF" {
			t.Errorf("the new pod has the failures of the old one: %+v", f)
		}
	})
}
