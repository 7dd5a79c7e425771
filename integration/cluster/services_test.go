package cluster_test

import (
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/sync/looptest"
)

// silence is how long to wait for an answer that must not come.
const silence = 150 * time.Millisecond

func TestServicesFollowTheirPodsOnEveryNode(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 2)
	ctx := clustertest.Context(t)
	web := c.service(t, "web")
	w := c.ns.NewWorkload("web", c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0]), c.At(c.Lab.RemotePods[1]))
	for _, s := range []struct {
		pods  int
		names string
	}{{1, "pod-1"}, {2, "pod-1 remote-1"}, {3, "pod-1 remote-1 remote-2"}, {1, "remote-2"}} {
		clustertest.Must(t, w.Scale(ctx, s.pods))
		clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "web", s.pods))
		c.awaitRules(t)
		checkAnswered(t, c.clients, web, strings.Fields(s.names)...)
	}
	clustertest.Must(t, w.Scale(ctx, 0))
	// Before it is gone, the last one is terminating, and serves; and over UDP, what
	// has a port that was used before goes where it went.
	for _, from := range c.clients {
		clustertest.Must(t, eventually.Try(ctx, func() error { return from.Comes(web, lab.Refused, traffic.Timeout) }))
	}
	c.awaitRules(t)
	clustertest.Must(t, c.ns.DeleteService(ctx, "web"))
	clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "web", 0))
	c.awaitRules(t)
	checkOutcome(t, c.clients, web, lab.TimedOut)
	for _, p := range c.proxies {
		if n := refused(t, p); n > 0 {
			t.Errorf("the proxy on %s asked %.0f times for what its account may not read", p.Truth.Host, n)
		}
	}
}

// refused returns how many requests of a proxy were forbidden, by its own metrics.
func refused(t *testing.T, p *clustertest.Proxy) (sum float64) {
	t.Helper()
	families, err := p.Metrics()
	clustertest.Must(t, err)
	for _, m := range families["rest_client_requests_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetValue() == "403" {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// meaning returns the node's rules in a form to compare. Rules that change all the time
// cannot be read.
func meaning(t *testing.T, h *lab.Host) string {
	t.Helper()
	for ctx := clustertest.Context(t); ; {
		tables, err := truth.Read(h)
		if err == nil {
			return looptest.Summary(tables)
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
