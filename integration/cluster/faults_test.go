package cluster_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// quietTime is how long a proxy is observed that must not do anything.
const quietTime = 3 * time.Second

// TestStartWithoutPermissionToListChangesNothing starts proxies on a node with the rules of an
// earlier run, some of which are outdated: without an API server, and with an account that has all
// permissions but one, and that one later.
func TestStartWithoutPermissionToListChangesNothing(t *testing.T) {
	t.Parallel()
	c := newScene(t, clustertest.New, lab.Options{Pods: 2})
	kept, goes := c.manualService(t, "kept", c.Lab.Pods[0]), c.manualService(t, "goes", c.Lab.Pods[0])
	c.runProxy(t, c.Kubeconfig(t, c.Server))
	clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
	c.proxy.AwaitTruth(t)
	clustertest.Must(t, c.proxy.Stop())
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "goes"))
	comes := c.manualService(t, "comes", c.Lab.Pods[0])
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	clustertest.Must(t, c.ServiceAccountKubeconfig(clustertest.Context(t), c.ns.Name, "default", c.Server, kubeconfig))
	c.permit(t, "services", "nodes", "servicecidrs.networking.k8s.io")
	before := meaning(t, c.Lab.Node.Host)
	unchanged := func(kubeconfig string) process.Entry {
		t.Helper()
		c.runProxy(t, kubeconfig)
		checkRulesStay(t, c.proxy, before, map[string]int{"readyz": 503, "livez": 200, "healthz": 503})
		checkAnswered(t, c.clients, kept, "pod-1")
		checkAnswered(t, c.clients, goes, "pod-1")
		lines := linesOf(c.proxy, logUnavailable)
		if len(lines) != 1 {
			t.Fatalf("it logs %v", lines)
		}
		return lines[0]
	}
	unchanged(c.Kubeconfig(t, "https://127.0.0.1:1"))
	clustertest.Must(t, c.proxy.Stop())
	if line := unchanged(kubeconfig); line["kind"] != "EndpointSlice" || !strings.Contains(line["err"], "forbidden") {
		t.Errorf("it logs %v", line)
	}
	c.permit(t, "endpointslices.discovery.k8s.io")
	clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
	c.proxy.AwaitTruth(t)
	checkAnswered(t, c.clients, comes, "pod-1")
	checkOutcome(t, c.clients, goes, lab.TimedOut)
	if n := len(linesOf(c.proxy, logAvailable)); n != 1 {
		t.Errorf("the log has %d lines %q", n, logAvailable)
	}
}

// permit permits the account "default" of the test's namespace to read resources of all namespaces,
// and waits until that is in effect.
func (c *scene) permit(t *testing.T, resources ...string) {
	t.Helper()
	ctx, name, account := clustertest.Context(t), c.ns.Name+"-"+resources[0], c.ns.Name+":default"
	_, err := c.Kubectl(ctx, "create", "clusterrole", name, "--verb=list,watch", "--resource="+strings.Join(resources, ","))
	clustertest.Must(t, err)
	_, err = c.Kubectl(ctx, "create", "clusterrolebinding", name, "--clusterrole="+name, "--serviceaccount="+account)
	clustertest.Must(t, err)
	for _, resource := range resources {
		clustertest.Must(t, eventually.Try(ctx, func() error {
			_, err := c.Kubectl(ctx, "auth", "can-i", "watch", resource, "-A", "--as=system:serviceaccount:"+account)
			return err
		}))
	}
}

// checkRulesStay checks for a while that the node of a proxy keeps its rules, and the status codes
// of its probes.
func checkRulesStay(t *testing.T, p *clustertest.Proxy, before string, probes map[string]int) {
	t.Helper()
	ticker := time.NewTicker(quietTime / 20)
	defer ticker.Stop()
	for range 20 {
		if now := meaning(t, p.Truth.Host); now != before {
			t.Fatalf("the rules are now\n%s\nand were\n%s", now, before)
		}
		<-ticker.C
	}
	probe(t, p, probes)
}
