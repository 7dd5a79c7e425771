package cluster_test

import (
	"errors"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

// Messages that a proxy logs.
const (
	logUnavailable = "API server unavailable, keeping the last known objects"
	logAvailable   = "API server available again"
)

// TestRulesSurviveARestartOfTheAPIServer kills the API server, and changes objects before the
// proxy of node-1 reaches the next one: it gets no events of the deleted ones.
func TestRulesSurviveARestartOfTheAPIServer(t *testing.T) {
	t.Parallel()
	c := newScene(t, clustertest.Alone, lab.Options{Pods: 3, RemotePods: 3})
	relay, err := c.Relay(c.Lab.Outside, 0)
	clustertest.Must(t, err)
	t.Cleanup(relay.Down)
	proxies := []*clustertest.Proxy{
		c.StartProxy(t, c.Lab.Node, c.Kubeconfig(t, relay.URL())), c.StartProxy(t, c.Lab.Remote, c.Kubeconfig(t, c.URL())),
	}
	crowd := traffic.Start(c.clients...)
	always := c.manualService(t, "always", c.Lab.Pods[0], c.Lab.RemotePods[0])
	clustertest.Must(t, crowd.Add(clustertest.Context(t), always))
	goes, changes := c.manualService(t, "goes", c.Lab.RemotePods[0]), c.manualService(t, "changes", c.Lab.Pods[0])
	awaitTruth(t, proxies)
	before := [2]string{meaning(t, c.Lab.Node.Host), meaning(t, c.Lab.Remote.Host)}

	c.KillAPIServer()
	for i, p := range proxies {
		checkRulesStay(t, p, before[i], map[string]int{"readyz": 200, "livez": 200, "healthz": 200})
	}
	checkAnswered(t, c.clients, goes, "remote-1")
	checkAnswered(t, c.clients, changes, "pod-1")
	relay.Down()
	clustertest.Must(t, c.RestartAPIServer(clustertest.Context(t)))
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "goes"))
	c.setEndpoints(t, "changes", c.Lab.Pods[1], c.Lab.RemotePods[1])
	comes := c.manualService(t, "comes", c.Lab.RemotePods[0])
	clustertest.Must(t, relay.Up())

	awaitTruth(t, proxies)
	checkAnswered(t, c.clients, changes, "pod-2", "remote-2")
	checkAnswered(t, c.clients, comes, "remote-1")
	checkOutcome(t, c.clients[:2], goes, lab.TimedOut)
	questions, err := crowd.Stop()
	t.Logf("%d questions", questions)
	clustertest.Must(t, err)
}

// TestNodeFollowsWhereTheEndOfListsIsLost has a proxy before the API server that loses the bookmarks
// which end streamed lists. It takes half a minute: as long as a list may lack its end.
func TestNodeFollowsWhereTheEndOfListsIsLost(t *testing.T) {
	t.Parallel()
	c := newScene(t, clustertest.New, lab.Options{Pods: 2, RemotePods: 1})
	url, end, err := c.ProxyWithoutEnds(c.Lab.Outside)
	clustertest.Must(t, err)
	t.Cleanup(func() { clustertest.Must(t, end()) })
	c.manualService(t, "web", c.Lab.Pods[0])
	c.runProxy(t, c.Kubeconfig(t, url))
	clustertest.Must(t, eventually.Try(clustertest.Context(t), func() error {
		for _, line := range linesOf(c.proxy, logUnavailable) {
			if strings.Contains(line["err"], "streamed list without its end") {
				return nil
			}
		}
		return errors.New("no outage logged")
	}))
	c.proxy.AwaitTruth(t)
	c.setEndpoints(t, "web", c.Lab.RemotePods[0])
	c.proxy.AwaitTruth(t)
}

// awaitTruth waits until the rule set of each node is that of the API's objects.
func awaitTruth(t *testing.T, proxies []*clustertest.Proxy) {
	t.Helper()
	for _, p := range proxies {
		p.AwaitTruth(t)
	}
}

func linesOf(p *clustertest.Proxy, message string) (found []process.Entry) {
	for _, e := range p.Log.Entries(0) {
		if e["msg"] == message {
			found = append(found, e)
		}
	}
	return found
}

// probe checks the status codes of a proxy's probes.
func probe(t *testing.T, p *clustertest.Proxy, want map[string]int) {
	t.Helper()
	for path, code := range want {
		status, body, err := p.Get("http://127.0.0.1:10256/" + path)
		clustertest.Must(t, err)
		if status != code {
			t.Errorf("%s of %s answers %d, want %d: %s", path, p.Truth.Host, status, code, body)
		}
	}
}
