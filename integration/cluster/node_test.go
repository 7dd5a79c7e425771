package cluster_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/daemon"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
)

// changeNode changes the current Node.
func (c *oneNode) changeNode(t *testing.T, change func(*corev1.Node)) {
	t.Helper()
	ctx := clustertest.Context(t)
	nodes, name := c.Client.CoreV1().Nodes(), c.NodeName(c.Lab.Node)
	clustertest.Must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			change(n)
			_, err = nodes.Update(ctx, n, metav1.UpdateOptions{})
		}
		return err
	}))
}

// replaceNode deletes the Node and creates another one, or none.
func (c *oneNode) replaceNode(t *testing.T, change func(*corev1.Node)) {
	t.Helper()
	ctx, name := clustertest.Context(t), c.NodeName(c.Lab.Node)
	clustertest.Must(t, objects.DeleteNode(ctx, c.Client, name))
	if change == nil {
		return
	}
	n := objects.Node(name, "zone-a", c.Lab.Node)
	change(n)
	_, err := objects.CreateNode(ctx, c.Client, n)
	clustertest.Must(t, err)
}

// TestNodeZoneIsFollowed has one endpoint for each of two zones.
func TestNodeZoneIsFollowed(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 2)
	to := c.service(t, "web", func(s *corev1.Service) { s.Spec.Selector = nil })
	for _, s := range slicesOf("web", c.Lab.Pods[:2]) {
		for i, zone := range []string{"zone-a", "zone-b"} {
			s.Endpoints[i].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
		}
		_, err := c.ns.CreateSlice(clustertest.Context(t), s)
		clustertest.Must(t, err)
	}
	c.proxy = c.Proxy(t, c.Lab.Node)
	for _, s := range []struct {
		zone  string
		names []string
	}{{"zone-a", []string{"pod-1"}}, {"zone-b", []string{"pod-2"}}, {"zone-c", []string{"pod-1", "pod-2"}}, {"", []string{"pod-1", "pod-2"}}, {"zone-a", []string{"pod-1"}}} {
		c.changeNode(t, func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = s.zone })
		c.proxy.AwaitTruth(t)
		checkAnswered(t, c.clients, to, s.names...)
	}
}

// TestPodCIDRsOfTheNodeAreAwaitedAndFollowed checks by the source address that a server
// sees whether the client is treated as a pod.
func TestPodCIDRsOfTheNodeAreAwaitedAndFollowed(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 1)
	to := c.manualService(t, "web", c.Lab.Pods[0])
	c.replaceNode(t, func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "", nil })
	nothing := meaning(t, c.Lab.Node)
	c.proxy = c.Run(t, c.Lab.Node, process.Config{Args: []string{
		"--kubeconfig=" + c.Kubeconfig(t, c.Server), "--hostname-override=" + c.NodeName(c.Lab.Node), "--detect-local-mode=NodeCIDR",
	}})
	c.proxy.Truth.Config.PodsFromNode = true
	c.proxy.Truth.Config.Rules.Pods = [len(model.Families)]netip.Prefix{}
	c.checkNotReady(t, nothing)

	for _, s := range []struct {
		ranges [len(model.Families)]netip.Prefix
		give   func(*testing.T, func(*corev1.Node))
		seen   func(model.Family) netip.Addr
	}{
		{lab.PodRanges, c.changeNode, c.Lab.Pods[1].Addr},
		// The API server permits no change of existing ranges.
		{lab.RemotePodRanges, c.replaceNode, c.Lab.Node.Gateway},
		{lab.PodRanges, c.replaceNode, c.Lab.Pods[1].Addr},
	} {
		s.give(t, func(n *corev1.Node) {
			n.Spec.PodCIDR = s.ranges[0].String()
			n.Spec.PodCIDRs = []string{s.ranges[0].String(), s.ranges[1].String()}
		})
		clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
		c.proxy.AwaitTruth(t)
		to.Check = func(a lab.Answer, _ time.Time) error {
			if want := s.seen(model.FamilyOf(a.Seen.Addr())); a.Seen.Addr() != want {
				return fmt.Errorf("%s saw %s, want %s", a.By, a.Seen, want)
			}
			return nil
		}
		checkAnswered(t, c.clients[:1], to, "pod-1")
	}
}

// TestHealthzFailsOnDeletedOrTaintedNodes checks that other probes and the rules do not
// change.
func TestHealthzFailsOnDeletedOrTaintedNodes(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 1)
	to := c.manualService(t, "web", c.Lab.Pods[0])
	c.proxy = c.Proxy(t, c.Lab.Node)
	c.proxy.AwaitTruth(t)
	before := of(to, meaning(t, c.Lab.Node))
	for url, says := range map[string]string{daemon.HealthURL: `"lastUpdated"`, "http://127.0.0.1:10249/proxyMode": "nftables"} {
		if status, body, err := c.proxy.Get(url); err != nil || status != 200 || !strings.Contains(body, says) {
			t.Errorf("%s answers %d, %v: %s, want %s", url, status, err, body, says)
		}
	}
	same := func(*corev1.Node) {}
	finalizer := []string{"tests.example.com/last"}
	for _, s := range []struct {
		says string
		do   func()
		want int
	}{
		{"it is there", func() {}, 200},
		{"it has the taint", func() {
			c.changeNode(t, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
			})
		}, 503},
		{"it has another taint", func() { c.changeNode(t, func(n *corev1.Node) { n.Spec.Taints[0].Key = "example.com/slow" }) }, 200},
		{"it is being deleted", func() {
			c.changeNode(t, func(n *corev1.Node) { n.Finalizers = finalizer })
			c.replaceNode(t, nil)
		}, 503},
		{"it is gone", func() { c.changeNode(t, func(n *corev1.Node) { n.Finalizers = nil }) }, 503},
		{"it is there again", func() { c.replaceNode(t, same) }, 200},
		{"it is deleted immediately", func() { c.replaceNode(t, nil) }, 503},
		{"it is back", func() { c.replaceNode(t, same) }, 200},
	} {
		s.do()
		clustertest.Must(t, c.proxy.Daemon.Await(clustertest.Context(t), s.says, func() error {
			status, body, err := c.proxy.Get(daemon.HealthURL)
			if err == nil && status != s.want {
				err = fmt.Errorf("healthz answers %d: %s", status, body)
			}
			return err
		}))
		probe(t, c.proxy, map[string]int{"readyz": 200, "livez": 200, "healthz": s.want})
		if now := of(to, meaning(t, c.Lab.Node)); now != before {
			t.Errorf("when %s, the rules are\n%s\nand were\n%s", s.says, now, before)
		}
		checkAnswered(t, c.clients, to, "pod-1")
	}
}

// of returns the lines of a rule set about the target: others have Services, too.
func of(t traffic.Target, meaning string) (lines string) {
	for _, a := range t.Addrs {
		lines += linesWith(meaning, a.String()) + "\n"
	}
	return lines
}
