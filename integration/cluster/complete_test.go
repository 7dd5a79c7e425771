package cluster_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

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
