package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
)

// TestRollingUpdatesLoseNoConnection has clients ask all the time while Pods are
// replaced, all or those of one node, and while a Service moves from Pods to
// others: a blue-green deployment.
func TestRollingUpdatesLoseNoConnection(t *testing.T) {
	t.Parallel()
	c := newScene(t, clustertest.New, lab.Options{Pods: 4, RemotePods: 4})
	proxies := []*clustertest.Proxy{c.Proxy(t, c.Lab.Node), c.Proxy(t, c.Lab.Remote)}
	ctx := clustertest.Context(t)
	crowd := traffic.Start(c.clients[0], c.clients[2], c.clients[4])
	pods := []objects.Place{c.At(c.Lab.Pods[0]), c.At(c.Lab.Pods[1]), c.At(c.Lab.Pods[2])}
	remote := []objects.Place{c.At(c.Lab.RemotePods[0]), c.At(c.Lab.RemotePods[1]), c.At(c.Lab.RemotePods[2])}
	rolls := []*objects.Workload{c.ns.NewWorkload("cluster", append(remote[:2:2], pods[:2]...)...), c.ns.NewWorkload("local", pods...)}
	for i, policy := range []func(*corev1.Service){externalCluster, externalLocal} {
		s := c.service(t, rolls[i].App, nodePort, policy)
		clustertest.Must(t, rolls[i].Scale(ctx, 2))
		clustertest.Must(t, crowd.Add(ctx, traffic.NodePort(s, c.Lab.Node)))
	}
	for colour, places := range map[string][]objects.Place{"blue": pods[:2], "green": remote[:2]} {
		clustertest.Must(t, c.ns.NewWorkload(colour, places...).Scale(ctx, 2))
	}
	paint := func(colour string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Selector = map[string]string{objects.App: colour} }
	}
	clustertest.Must(t, crowd.Add(ctx, traffic.Service(c.service(t, "painted", paint("blue")), port)))
	const rounds = 3
	for n := range rounds {
		ctx := clustertest.Context(t)
		for _, w := range rolls {
			clustertest.Must(t, w.Roll(ctx))
			clustertest.Must(t, c.ns.AwaitEndpoints(ctx, w.App, 2))
		}
		_, err := c.ns.ChangeService(ctx, "painted", paint([]string{"green", "blue"}[n%2]))
		clustertest.Must(t, err)
		awaitTruth(t, proxies)
	}
	questions, err := crowd.Stop()
	t.Logf("%d questions", questions)
	clustertest.Must(t, err)
	for _, p := range proxies {
		if n := refused(t, p); n > 0 {
			t.Errorf("the proxy on %s asked %.0f times for what its account may not read", p.Truth.Host, n)
		}
	}
}

// What makes a Service differ from others.

func nodePort(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }

func externalLocal(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func externalCluster(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
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
