package cluster_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestPodSourceAddressesAreKept has clients that are Pods, on either node and the
// server's own, and compares what the server sees with what it sees without a
// Service.
func TestPodSourceAddressesAreKept(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	server := c.Lab.Pods[0]
	targets := []traffic.Target{c.service(t, "seen"), {
		Name: "the Pod itself", Port: targetPort, Addrs: [...]netip.Addr{server.Addr(model.IPv4), server.Addr(model.IPv6)},
	}}
	c.scaled(t, "seen", c.At(server))
	for _, to := range targets {
		for client, host := range map[*traffic.Client]*lab.Pod{c.near: c.Lab.Pods[1], c.far: c.Lab.RemotePods[1]} {
			to.Check = seenAs(host.Host)
			checkAnswered(t, []*traffic.Client{client}, to, "pod-1")
		}
	}
	// A Pod that reaches itself would drop packets from itself.
	itself := targets[0]
	itself.Check = func(a lab.Answer, _ time.Time) error {
		if want := c.Lab.Node.Gateway(model.FamilyOf(a.Seen.Addr())); a.Seen.Addr() != want {
			return fmt.Errorf("%s saw %s, want %s", a.By, a.Seen, want)
		}
		return nil
	}
	checkAnswered(t, []*traffic.Client{traffic.From(server.Host)}, itself, "pod-1")
}

// TestServicesWithoutEndpointsRefuseAtEveryAddress has Services without Pods, and with an
// evicted or unready one.
func TestServicesWithoutEndpointsRefuseAtEveryAddress(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	for name, pod := range map[string]func(*testing.T, string){
		"no-pod": func(*testing.T, string) {},
		"evicted": func(t *testing.T, name string) {
			t.Helper()
			ctx := clustertest.Context(t)
			_, err := c.ns.CreatePod(ctx, name, name, c.At(c.Lab.Pods[0]))
			clustertest.Must(t, err)
			clustertest.Must(t, c.ns.AwaitEndpoints(ctx, name, 1))
			_, err = c.ns.SetPodStatus(ctx, name, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.ContainersReady, Status: corev1.ConditionFalse},
			}})
			clustertest.Must(t, err)
		},
		"not-ready": func(t *testing.T, name string) {
			t.Helper()
			ctx := clustertest.Context(t)
			_, err := c.ns.CreatePendingPod(ctx, name, name, c.NodeName(c.Lab.Node))
			clustertest.Must(t, err)
			_, err = c.ns.SetReady(ctx, name, c.At(c.Lab.Pods[0]), false)
			clustertest.Must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs := anywhere()
			s := c.create(t, name, balanced, externalIPs(addrs))
			targets := append(c.bothOf(s), traffic.Service(s, port), c.balancer(t, name),
				traffic.Target{Name: "external IP", Addrs: addrs, Port: port})
			pod(t, name)
			clustertest.Must(t, c.ns.AwaitEndpoints(clustertest.Context(t), name, 0))
			c.awaitRules(t)
			for _, to := range targets {
				checkOutcome(t, c.clients, to, lab.Refused)
			}
		})
	}
}

// TestPublishNotReadyAddresses compares a Service that publishes them with one that does
// not, for the same Pods.
func TestPublishNotReadyAddresses(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	ctx := clustertest.Context(t)
	publishes := c.create(t, "publishes", nodePorts, func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true })
	does := c.create(t, "does-not", nodePorts, func(s *corev1.Service) { s.Spec.Selector = publishes.Spec.Selector })
	at := []objects.Place{c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0])}
	for i, name := range []string{"near", "far"} {
		_, err := c.ns.CreatePendingPod(ctx, name, "publishes", at[i].Node)
		clustertest.Must(t, err)
		_, err = c.ns.SetReady(ctx, name, at[i], false)
		clustertest.Must(t, err)
	}
	check := func() {
		t.Helper()
		clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "publishes", 2))
		clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "does-not", 0))
		c.awaitRules(t)
		for i := range 2 {
			checkAnswered(t, c.clients, c.both(publishes)[i], "pod-1", "remote-1")
			checkOutcome(t, c.clients, c.both(does)[i], lab.Refused)
		}
	}
	check()
	for _, name := range []string{"near", "far"} {
		clustertest.Must(t, c.ns.TerminatePod(ctx, name))
	}
	check()
}

// TestServicesCanBeRecreated recreates a Service with the same name and other addresses.
func TestServicesCanBeRecreated(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	before := c.create(t, "again", nodePorts)
	c.scaled(t, "again", c.At(c.Lab.Pods[0]))
	checkAnswered(t, c.clients, traffic.Service(before, port), "pod-1")
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "again"))
	after := c.create(t, "again", nodePorts)
	clustertest.Must(t, c.ns.AwaitEndpoints(clustertest.Context(t), "again", 1))
	c.awaitRules(t)
	checkAnswered(t, c.clients, traffic.Service(after, port), "pod-1")
	checkAnswered(t, c.clients, c.both(after)[1], "pod-1")
	if is, was := traffic.Service(after, port), traffic.Service(before, port); is.Addrs != was.Addrs {
		checkOutcome(t, []*traffic.Client{c.near, c.far}, was, lab.TimedOut)
	}
}

// TestSCTPServicesDoNotLoadTheKernelsSCTP checks for the sysctls of the module.
func TestSCTPServicesDoNotLoadTheKernelsSCTP(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	s := c.create(t, "sctp", nodePorts, func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{objects.Port(model.SCTP, port, targetPort)}
	})
	c.scaled(t, "sctp", c.At(c.Lab.RemotePods[0]))
	for _, to := range append(c.bothOf(s), traffic.Service(s, port)) {
		checkAnsweredOver(t, traffic.Over(model.SCTP), c.clients, to, "remote-1")
	}
	protocols, err := os.ReadFile("/proc/net/protocols")
	clustertest.Must(t, err)
	if strings.Contains(string(protocols), "SCTP") {
		t.Errorf("the kernel speaks SCTP now:\n%s", protocols)
	}
}

// TestRollingUpdatesLoseNoConnection has clients ask all the time while Pods are
// replaced, all or those of one node, and while a Service moves from Pods to
// others: a blue-green deployment.
func TestRollingUpdatesLoseNoConnection(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 3)
	ctx := clustertest.Context(t)
	crowd := traffic.Start(c.near, c.clients[2], c.clients[4])
	pods := []objects.Place{c.At(c.Lab.Pods[0]), c.At(c.Lab.Pods[1]), c.At(c.Lab.Pods[2])}
	remote := []objects.Place{c.At(c.Lab.RemotePods[0]), c.At(c.Lab.RemotePods[1]), c.At(c.Lab.RemotePods[2])}
	rolls := map[string]*objects.Workload{
		"cluster": c.ns.NewWorkload("cluster", append(remote[:2:2], pods[:2]...)...),
		"local":   c.ns.NewWorkload("local", pods...),
	}
	for name, change := range map[string]func(*corev1.Service){"cluster": externalCluster, "local": externalLocal} {
		c.create(t, name, balanced, change)
		clustertest.Must(t, rolls[name].Scale(ctx, 2))
		clustertest.Must(t, crowd.Add(c.balancer(t, name)).Await(ctx))
	}
	for colour, places := range map[string][]objects.Place{"blue": pods[:2], "green": remote[:2]} {
		clustertest.Must(t, c.ns.NewWorkload(colour, places...).Scale(ctx, 2))
	}
	paint := func(colour string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Selector = map[string]string{objects.App: colour} }
	}
	clustertest.Must(t, crowd.Add(c.service(t, "painted", paint("blue"))).Await(ctx))
	const rounds = 3
	for n := range rounds {
		for _, w := range rolls {
			clustertest.Must(t, w.Roll(ctx))
			clustertest.Must(t, c.ns.AwaitEndpoints(ctx, w.App, 2))
		}
		c.change(t, "painted", paint([]string{"green", "blue"}[n%2]))
		c.awaitRules(t)
	}
	questions, err := crowd.Stop()
	t.Logf("%d questions", questions)
	clustertest.Must(t, err)
}
