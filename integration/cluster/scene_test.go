package cluster_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/sync/looptest"
)

func TestMain(m *testing.M) { clustertest.Main(m, built.Scaler, built.TriggerTest) }

// The port of Services, that of their Pods, and how long to wait for an answer that must not come.
const (
	port       = 80
	targetPort = 8080
	silence    = 150 * time.Millisecond
)

// scene is a cluster with a namespace, and clients.
type scene struct {
	*clustertest.Cluster
	ns *objects.Namespace
	// clients are the last pod of each node, which does not serve, the nodes, and the host outside.
	clients []*traffic.Client
	proxy   *clustertest.Proxy // the one that runProxy started last
}

// newScene returns a scene without proxies, in which pods of each node serve, with a control plane
// from kind.
func newScene(t *testing.T, kind func(testing.TB, lab.Options) *clustertest.Cluster, o lab.Options) *scene {
	t.Helper()
	c := &scene{Cluster: kind(t, o)}
	for _, all := range [][]*lab.Pod{c.Lab.Pods, c.Lab.RemotePods} {
		for i, p := range all {
			if i == len(all)-1 {
				c.clients = append(c.clients, traffic.From(p.Host))
				continue
			}
			clustertest.Must(t, p.ServeAll(targetPort))
		}
	}
	for _, n := range c.Lab.Nodes() {
		c.clients = append(c.clients, traffic.From(n.Host))
	}
	c.ns, c.clients = c.Namespace(t), append(c.clients, traffic.From(c.Lab.Outside))
	return c
}

// runProxy starts a new proxy on the first node.
func (c *scene) runProxy(t *testing.T, kubeconfig string, flags ...string) {
	t.Helper()
	c.proxy = c.StartProxy(t, c.Lab.Node, kubeconfig, flags...)
}

// service makes a Service of all families and protocols.
func (c *scene) service(t *testing.T, name string, change ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	s := objects.Service(name, objects.Ports(port, targetPort)...)
	for _, do := range change {
		do(s)
	}
	s, err := c.ns.CreateService(clustertest.Context(t), s)
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
	return traffic.Service(to, port)
}

// setEndpoints gives a manual Service other endpoints.
func (c *scene) setEndpoints(t *testing.T, name string, pods ...*lab.Pod) {
	t.Helper()
	for _, s := range slicesOf(name, pods) {
		_, err := c.ns.UpdateSlice(clustertest.Context(t), s)
		clustertest.Must(t, err)
	}
}

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

// meaning returns the node's rules in a form to compare. Rules that change all the time
// cannot be read.
func meaning(t *testing.T, h *lab.Host) (rules string) {
	t.Helper()
	clustertest.Must(t, eventually.Try(clustertest.Context(t), func() error {
		tables, err := truth.Read(h)
		rules = looptest.Summary(tables)
		return err
	}))
	return rules
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
