package explain

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// TestRulesDoNotShowThatEndpointsAnswer has nodes that saw no connection, or only some of them.
func TestRulesDoNotShowThatEndpointsAnswer(t *testing.T) {
	for _, tc := range []struct {
		name     string
		response map[string]string // by endpoint, as the client's node knows it
		there    string            // as node-2 knows it
		answers  string
		code     int
		want     string
	}{
		{"none", nil, "", answer.Unknown, 2, "the rules send packets to 3 endpoints; whether they answer was not observed\n"},
		{"some", map[string]string{"10.244.1.2": answer.Responds}, "", answer.Unknown, 2, "the rules send packets to 3 endpoints: 1 answering, 2 not observed\n"},
		{"one refuses on its node", map[string]string{"10.244.1.2": answer.Responds}, answer.Refuses, answer.Sometimes, 1, "1 answering, 1 refusing connections, 1 not observed\n"},
		{"all", map[string]string{"10.244.1.2": answer.Responds, "10.244.3.2": answer.Responds}, answer.Responds, answer.Always, 0, ": arrives\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			endpoints := r.answers["node-1"].Outcomes[0].Endpoints
			for i := range endpoints {
				endpoints[i].Response = tc.response[endpoints[i].Address.String()]
			}
			for _, n := range []string{"node-2", "node-3"} {
				r.answers[n].Outcomes[0].Endpoints[0].Response = ""
			}
			r.answers["node-2"].Outcomes[0].Endpoints[0].Response = tc.there
			report := r.explain("pod/cart", "svc/web")
			r.expect(report, answer.Always, tc.want)
			if code := exit.Code(answer.ExitError(report.Arrives, report.Answers)); report.Answers != tc.answers || code != tc.code {
				t.Errorf("answers %s, exit code %d", report.Answers, code)
			}
		})
	}
}

// TestProbeAsksTheNodeOfEachEndpoint has endpoints that no node observed.
func TestProbeAsksTheNodeOfEachEndpoint(t *testing.T) {
	r := newRig(t)
	r.probe = true
	for i := range r.answers["node-1"].Outcomes[0].Endpoints {
		r.answers["node-1"].Outcomes[0].Endpoints[i].Response = ""
	}
	r.answers["node-3"].Outcomes[0].Endpoints[0].Response = answer.Silent
	report := r.explain("pod/cart", "svc/web")
	r.expect(report, answer.Always, "1 answering, 1 not answering, 1 not observed", "(pod shop/web-3), sees 10.244.1.3 (pod shop/cart), does not answer")
	for _, n := range []string{"1", "2", "3"} {
		if want := "node-" + n + " --observe=0s --probe --namespace=shop --name=web 10.244.1.3,10.244." + n + ".2:8080/tcp"; !slices.Contains(r.asked, want) {
			t.Errorf("not asked: %s\n%s", want, strings.Join(r.asked, "\n"))
		}
	}
}

// TestPacketsFromOutsideAreAsWellOffAsAtTheWorstNode has a policy Local and an endpoint on one
// node, and then a node that does not answer.
func TestPacketsFromOutsideAreAsWellOffAsAtTheWorstNode(t *testing.T) {
	r := newRig(t)
	drops := &answer.Answer{
		Schema: answer.Schema, Arrives: answer.Never, Service: "shop/web:tcp-80",
		Outcomes: []path.Outcome{{Verdict: path.VerdictDropped, Probability: 1, By: path.RuleRef{Table: "ip kube-vmap", Chain: "x"}, Reason: "NoLocalEndpoint"}},
	}
	r.answers["node-2"], r.answers["node-3"] = drops, drops
	report := r.explain("198.51.100.7", "203.0.113.1:80")
	r.expect(report, answer.Never, "does not arrive by node-2, node-3; arrives by node-1\n", "Does not arrive: on node node-2: dropped: the Service has endpoints, but its policy is Local and none of them is on node-2")
	if len(report.Entries) != 3 || report.Entries[0].Node != "node-2" || exit.Code(answer.ExitError(report.Arrives, report.Answers)) != 1 {
		t.Errorf("%+v", report.Entries)
	}
	r.answers["node-2"], r.answers["node-3"] = r.answers["node-1"], nil
	r.errors["node-3"] = errSilent
	r.expect(r.explain("198.51.100.7", "203.0.113.1:80"), answer.Unknown, "not certain by node-3; arrives by node-1, node-2\n", "Path of 198.51.100.7")
}

// TestAddressOfAServiceIsNotOutside has a port that the Service does not have, too.
func TestAddressOfAServiceIsNotOutside(t *testing.T) {
	for _, to := range []string{"10.96.55.163:80", "10.96.55.163:81"} {
		text := newRig(t).explain("pod/cart", to).Text(false)
		if !strings.HasPrefix(text, "pod shop/cart on node-1 -> 10.96.55.163, ClusterIP of shop/web: ") {
			t.Errorf("%s: %s", to, text)
		}
	}
}

// TestTableThatSendsToAnUnknownEndpointIsNamed has old rules of another proxy on the client's node.
func TestTableThatSendsToAnUnknownEndpointIsNamed(t *testing.T) {
	r := newRig(t)
	a := r.answers["node-1"]
	a.Outcomes[0].Endpoints = a.Outcomes[0].Endpoints[:1]
	a.Outcomes[0].Endpoints[0].Address, a.Outcomes[0].Endpoints[0].Probability = netip.MustParseAddr("10.244.2.99"), 1
	a.Steps = []path.Step{{Hook: "prerouting", Table: "ip nat", Chain: "KUBE-SEP-A", Rule: 9, Kind: "destination", To: "10.244.2.99:8080"}}
	r.expect(r.explain("pod/cart", "svc/web"), answer.Unknown,
		"no EndpointSlice has this endpoint, so its pod may be gone; table ip nat, chain KUBE-SEP-A, rule handle 9 of node node-1 sends packets there")
}

// TestClientsNodeObservesOnce has a node that is behind the API server at first.
func TestClientsNodeObservesOnce(t *testing.T) {
	r := newRig(t)
	r.documents["node-1"], r.later = newDocument("1", "2"), map[string]*nodestatus.Document{"node-1": newDocument("1", "2", "3")}
	r.documents["node-1"].Services[0].Ports[0].Endpoints[1].Refused = 7
	report := r.explain("pod/cart", "svc/web")
	r.expect(report, answer.Always, "3 endpoints: 2 answering, 1 refusing connections\n")
	if len(report.Differences) > 0 {
		t.Errorf("%+v", report.Differences)
	}
}

// TestOldDocumentIsNoDifference has a node that is behind the API server at first, and does not
// answer when it is read again.
func TestOldDocumentIsNoDifference(t *testing.T) {
	r := newRig(t)
	r.documents["node-2"], r.failLater = newDocument("1", "2"), errors.New("no answer within 10s")
	report := r.explain("pod/cart", "svc/web")
	if len(report.Differences) > 0 || len(report.Silent) != 1 {
		t.Errorf("%+v, %+v", report.Differences, report.Silent)
	}
	r.expect(report, answer.Always, "node-2: what it knows about the Service was not read again: no answer within 10s")
}

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
