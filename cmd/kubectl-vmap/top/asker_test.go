package top

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/nodes"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
)

// TestDeadNodeDelaysOneQueryOnly has a node that does not answer, and then does.
func TestDeadNodeDelaysOneQueryOnly(t *testing.T) {
	const timeout = time.Second
	var alive atomic.Bool
	var asked atomic.Int32
	well := busy()
	program := func(r *http.Request, args []string, stdout, stderr io.Writer) int {
		asked.Add(1)
		if !alive.Load() {
			<-r.Context().Done()
			return 1
		}
		return well(r, args, stdout, stderr)
	}
	s := nodestest.New(t, map[string]nodestest.Program{"dead": program, "well": busy()})
	a := newAsker(t.Context(), s.Cluster(t, nodes.Config{Timeout: timeout}), nodes.Selection{}, 10*time.Millisecond)
	failed := ""
	for n := 0; asked.Load() < 3; n++ {
		start := time.Now()
		got, err := a.query(t.Context(), status.Query{})
		if err != nil || len(got.Documents) != 1 || len(got.Failed) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		if took := time.Since(start); n > 0 && took > timeout {
			t.Errorf("query %d waited %s", n, took)
		}
		failed = got.Failed[0]
	}
	if !strings.HasPrefix(failed, "dead: not answering for ") || !strings.Contains(failed, "s: no answer within 1s") {
		t.Error(failed)
	}
	alive.Store(true)
	for start := time.Now(); ; {
		if got, err := a.query(t.Context(), status.Query{}); err == nil && len(got.Documents) == 2 && len(got.Failed) == 0 {
			break
		}
		if time.Since(start) > 20*time.Second {
			t.Fatal("the node was not asked again")
		}
	}
}

func TestFailingNodesAreAskedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t.Context(), nil, nodes.Selection{}, 2*time.Second)
		n := nodes.Node{Name: "dead", Pod: "one"}
		for _, want := range []time.Duration{4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 2 * time.Minute, 2 * time.Minute} {
			a.fail(n, io.EOF)
			if got := time.Until(a.failing["dead"].next); got != want || len(a.due([]nodes.Node{n}, status.Query{})) != 0 {
				t.Errorf("asked again after %s, want %s", got, want)
			}
		}
		<-time.After(time.Minute)
		if got := a.failures(); len(got) != 1 || got[0].Error() != "dead: not answering for 1m0s: EOF" {
			t.Error(got)
		}
		n.Pod = "another"
		if due := a.due([]nodes.Node{n}, status.Query{}); len(due) != 1 || len(a.failures()) != 0 {
			t.Errorf("the new pod is not asked: %v", due)
		}
	})
}
