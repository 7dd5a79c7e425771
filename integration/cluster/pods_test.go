package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
)

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
