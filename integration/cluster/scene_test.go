package cluster_test

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// The port of Services, and that of their Pods.
const (
	port       = 80
	targetPort = 8080
)

// scene is a cluster with a namespace, and clients.
type scene struct {
	*clustertest.Cluster
	ns      *objects.Namespace
	clients []*traffic.Client
}

// twoNodes is a scene with a proxy on both of its nodes, in zone-a and zone-b, and
// clients everywhere: pods, nodes, and the host outside.
type twoNodes struct {
	scene
	proxies [2]*clustertest.Proxy
	// near and far are the last pod of each node, which do not serve.
	near, far *traffic.Client
}

// newTwoNodes returns a scene with so many serving pods on each node.
func newTwoNodes(t *testing.T, pods int) *twoNodes {
	t.Helper()
	clustertest.Program(t)
	c := prepareTwoNodes(t, clustertest.New, pods)
	for i, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		c.proxies[i] = c.Proxy(t, n)
	}
	return c
}

// prepareTwoNodes creates everything but the proxies, with a control plane from kind.
func prepareTwoNodes(t *testing.T, kind func(testing.TB, lab.Options, ...string) *clustertest.Cluster, pods int) *twoNodes {
	t.Helper()
	c := &twoNodes{scene: scene{Cluster: kind(t, lab.Options{Pods: pods + 1, RemotePods: pods + 1}, "zone-a", "zone-b")}}
	for _, all := range [][]*lab.Pod{c.Lab.Pods, c.Lab.RemotePods} {
		for _, p := range all[:pods] {
			clustertest.Must(t, p.ServeAll(targetPort))
		}
	}
	routeElsewhere(t, c.Lab, c.Lab.Node)
	c.ns = c.Namespace(t)
	c.near, c.far = traffic.From(c.Lab.Pods[pods].Host), traffic.From(c.Lab.RemotePods[pods].Host)
	c.clients = []*traffic.Client{
		c.near, c.far, traffic.From(c.Lab.Node.Host), traffic.From(c.Lab.Remote.Host), traffic.From(c.Lab.Outside),
	}
	return c
}

// oneNode is a scene with one node, in zone-a, where all pods serve but the last.
// Clients are that one, the node, and the host outside.
type oneNode struct {
	scene
	proxy *clustertest.Proxy // none at first
}

func newOneNode(t *testing.T, pods int) *oneNode {
	t.Helper()
	clustertest.Program(t)
	return prepareOneNode(t, clustertest.New, pods)
}

// prepareOneNode is newOneNode with a control plane from kind.
func prepareOneNode(t *testing.T, kind func(testing.TB, lab.Options, ...string) *clustertest.Cluster, pods int) *oneNode {
	t.Helper()
	c := &oneNode{scene: scene{Cluster: kind(t, lab.Options{Pods: pods + 1}, "zone-a")}}
	for _, p := range c.Lab.Pods[:pods] {
		clustertest.Must(t, p.ServeAll(targetPort))
	}
	c.ns = c.Namespace(t)
	c.clients = []*traffic.Client{
		traffic.From(c.Lab.Pods[pods].Host), traffic.From(c.Lab.Node.Host), traffic.From(c.Lab.Outside),
	}
	return c
}

// service makes a Service of all families and protocols.
func (c *scene) service(t *testing.T, name string, change ...func(*corev1.Service)) traffic.Target {
	t.Helper()
	return traffic.Service(c.create(t, name, change...), port)
}

// create is service, and returns the object.
func (c *scene) create(t *testing.T, name string, change ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	s := objects.Service(name, objects.Ports(port, targetPort)...)
	for _, do := range change {
		do(s)
	}
	s, err := c.ns.CreateService(clustertest.Context(t), s)
	clustertest.Must(t, err)
	return s
}

// change changes a Service.
func (c *scene) change(t *testing.T, name string, change ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	s, err := c.ns.ChangeService(clustertest.Context(t), name, func(s *corev1.Service) {
		for _, do := range change {
			do(s)
		}
	})
	clustertest.Must(t, err)
	return s
}

// manualService creates a Service whose EndpointSlices no controller writes: those of
// Kubernetes may take a minute to notice that the API server is available again.
func (c *scene) manualService(t *testing.T, name string, pods ...*lab.Pod) traffic.Target {
	t.Helper()
	to := c.service(t, name, func(s *corev1.Service) { s.Spec.Selector = nil })
	for _, s := range slicesOf(name, pods) {
		_, err := c.ns.CreateSlice(clustertest.Context(t), s)
		clustertest.Must(t, err)
	}
	return to
}

// setEndpoints gives a manual Service other endpoints.
func (c *scene) setEndpoints(t *testing.T, name string, pods ...*lab.Pod) {
	t.Helper()
	for _, s := range slicesOf(name, pods) {
		_, err := c.ns.UpdateSlice(clustertest.Context(t), s)
		clustertest.Must(t, err)
	}
}

// slicesOf returns a slice for each family.
func slicesOf(service string, pods []*lab.Pod) (all []*discoveryv1.EndpointSlice) {
	for _, f := range model.Families {
		var addrs []netip.Addr
		for _, p := range pods {
			addrs = append(addrs, p.Addr(f))
		}
		name := service + "-" + strings.ToLower(f.String())
		all = append(all, objects.Slice(name, service, objects.Ports(port, targetPort), "", addrs...))
	}
	return all
}

// awaitRules waits until the rule sets of both nodes are those of the API's objects.
func (c *twoNodes) awaitRules(t *testing.T) {
	t.Helper()
	for _, p := range c.proxies {
		p.AwaitTruth(t)
	}
}

// checkAnswered checks that exactly the named hosts answer these clients.
func checkAnswered(t *testing.T, clients []*traffic.Client, to traffic.Target, names ...string) {
	t.Helper()
	var group errgroup.Group
	for _, from := range clients {
		group.Go(func() error { return from.AnsweredBy(to, names...) })
	}
	clustertest.Must(t, group.Wait())
}

// checkOutcome checks how requests fail.
func checkOutcome(t *testing.T, clients []*traffic.Client, to traffic.Target, want lab.Outcome) {
	t.Helper()
	within := traffic.Timeout
	if want == lab.TimedOut {
		within = silence
	}
	var group errgroup.Group
	for _, from := range clients {
		group.Go(func() error { return from.Comes(to, want, within) })
	}
	clustertest.Must(t, group.Wait())
}
