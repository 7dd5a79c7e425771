package explain

import (
	"io"
	"net/http"
	"testing"
	"time"

	"kube-vmap/cmd/kubectl-vmap/nodes"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
)

// TestNodeMayObserveForLongerThanItsTimeOut has a node that observes for its second.
func TestNodeMayObserveForLongerThanItsTimeOut(t *testing.T) {
	t.Parallel()
	slow := func(_ *http.Request, _ []string, stdout, _ io.Writer) int {
		<-time.After(time.Second)
		_, _ = io.WriteString(stdout, `{"schema":1,"arrives":"always"}`)
		return 0
	}
	c := nodestest.New(t, map[string]nodestest.Program{"node-1": slow}).Cluster(t, nodes.Config{Timeout: 500 * time.Millisecond})
	if a, err := (&clusterNodes{Cluster: c}).Explain(t.Context(), "node-1", nil); err != nil || a.Arrives != "always" {
		t.Errorf("%+v, %v", a, err)
	}
}
