package explain

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
)

// TestNodeMayObserveForLongerThanItsTimeOut has a node that observes for its second.
func TestNodeMayObserveForLongerThanItsTimeOut(t *testing.T) {
	t.Parallel()
	slow := func(_ *http.Request, _ []string, stdout, _ io.Writer) int {
		<-time.After(time.Second)
		_, _ = io.WriteString(stdout, `{"schema":2,"answers":[{"to":"10.96.0.1:80"}]}`)
		return 0
	}
	c := nodestest.New(t, map[string]nodestest.Program{"node-1": slow}).Cluster(t, cluster.Config{Timeout: 500 * time.Millisecond})
	if r, err := (&clusterNodes{Cluster: c}).Explain(t.Context(), "node-1", Query{}); err != nil || r.Answers[0].To != "10.96.0.1:80" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNodeOfTheVersionBeforeAnswers has a node that takes one packet at a time, and prints its
// document in another command.
func TestNodeOfTheVersionBeforeAnswers(t *testing.T) {
	old := func(_ *http.Request, args []string, stdout, stderr io.Writer) int {
		switch text := strings.Join(args, " "); {
		case args[0] == "version":
			_, _ = io.WriteString(stdout, "kube-vmap v0.9.0\n")
		case args[0] == "status":
			_, _ = io.WriteString(stdout, `{"schema":1,"services":[{"namespace":"shop","name":"web"}]}`)
		case strings.Contains(text, "--name"):
			_, _ = io.WriteString(stderr, "unknown flag: --name\n")
			return 2
		default:
			_, _ = io.WriteString(stdout, `{"schema":1,"to":"`+strings.TrimPrefix(args[3], "--to=")+`","arrives":"always"}`)
		}
		return 0
	}
	c := nodestest.New(t, map[string]nodestest.Program{"node-1": old}).Cluster(t, cluster.Config{})
	q := Query{Namespace: "shop", Name: "web"}
	for _, to := range []string{"10.96.0.1:80", "[fd00::1]:80"} {
		at := netip.MustParseAddrPort(to)
		q.Packets = append(q.Packets, resolve.Packet{From: at.Addr(), To: at, Protocol: model.TCP})
	}
	r, err := (&clusterNodes{Cluster: c}).Explain(t.Context(), "node-1", q)
	if err != nil || len(r.Answers) != 2 || r.Answers[0].To != "10.96.0.1:80/tcp" || r.Answers[1].To != "[fd00::1]:80/tcp" || len(r.Document.Services) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
