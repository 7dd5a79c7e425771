package cluster_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/sync/looptest"
)

// silence is how long to wait for an answer that must not come.
const silence = 150 * time.Millisecond

// scaled creates a Pod of an app at each place, and waits until its Service has them on
// both nodes.
func (c *twoNodes) scaled(t *testing.T, app string, places ...objects.Place) {
	t.Helper()
	ctx := clustertest.Context(t)
	clustertest.Must(t, c.ns.NewWorkload(app, places...).Scale(ctx, len(places)))
	clustertest.Must(t, c.ns.AwaitEndpoints(ctx, app, len(places)))
	c.awaitRules(t)
}

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
		if n := requests(t, p, "GET", "403"); n > 0 {
			t.Errorf("the proxy on %s asked %.0f times for what its account may not read", p.Truth.Host, n)
		}
	}
}

// TestServicesOfOtherProxiesAreIgnored reads the kernel's tables, because package truth
// uses the same selectors as the proxy.
func TestServicesOfOtherProxiesAreIgnored(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	ctx := clustertest.Context(t)
	// No other Pod has the addresses of the headless Service's Pod.
	nowhere := []netip.Addr{netip.MustParseAddr("10.244.2.77"), netip.MustParseAddr("fd00:10:244:2::77")}
	places := map[string]objects.Place{
		"headless": {Node: c.NodeName(c.Lab.Remote), Addrs: nowhere}, "labelled": c.At(c.Lab.RemotePods[0]),
	}
	headless := objects.Service("headless", objects.Ports(port, targetPort)...)
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	external := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "external"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"},
	}
	labelled := objects.Service("labelled", objects.Ports(port, targetPort)...)
	labelled.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another-proxy"}
	var made *corev1.Service
	for _, s := range []*corev1.Service{headless, external, labelled} {
		var err error
		made, err = c.ns.CreateService(ctx, s)
		clustertest.Must(t, err)
	}
	for app, at := range places {
		_, err := c.ns.CreatePod(ctx, app, app, at)
		clustertest.Must(t, err)
		clustertest.Must(t, c.ns.AwaitEndpoints(ctx, app, 1))
	}
	other := traffic.Service(made, port)
	mine := c.service(t, "mine") // once it is programmed, the earlier ones have been processed
	c.awaitRules(t)
	checkOutcome(t, []*traffic.Client{c.near, c.far}, mine, lab.Refused)
	checkOutcome(t, []*traffic.Client{c.near, c.far}, other, lab.TimedOut)
	for _, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		text := meaning(t, n)
		for _, a := range append(nowhere, other.Addrs[:]...) {
			if strings.Contains(text, a.String()) {
				t.Errorf("%s has %s", n, a)
			}
		}
	}

	// Without the label the Service is ours, with it it is not.
	label := func(labels map[string]string) {
		_, err := c.ns.ChangeService(ctx, "labelled", func(s *corev1.Service) { s.Labels = labels })
		clustertest.Must(t, err)
		c.awaitRules(t)
	}
	label(nil)
	checkAnswered(t, []*traffic.Client{c.near, c.far}, other, "remote-1")
	label(labelled.Labels)
	checkOutcome(t, []*traffic.Client{c.near, c.far}, other, lab.TimedOut)
}

// meaning returns the node's rules in a form to compare. Rules that change all the time
// cannot be read.
func meaning(t *testing.T, n *lab.Node) string {
	t.Helper()
	for ctx := clustertest.Context(t); ; {
		tables, err := truth.Read(n.Host)
		if err == nil {
			return looptest.Summary(tables)
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
