package cluster_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
)

// prefer gives a Service a traffic distribution.
func prefer(how string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.TrafficDistribution = &how }
}

// TestTrafficPoliciesChooseEndpoints has a Pod on each node for each Service, unless the
// case has other places.
func TestTrafficPoliciesChooseEndpoints(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 2)
	const served = 8090
	for _, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		clustertest.Must(t, n.ServeAll(served))
	}
	host := func(s *corev1.Service) {
		internalLocal(s)
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].TargetPort = intstr.FromInt32(served)
		}
	}
	both := []objects.Place{c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0])}
	for _, s := range []struct {
		name      string
		change    func(*corev1.Service)
		places    []objects.Place
		near, far string // who answers pods and processes on either node; empty if no endpoint does
	}{
		{"internal-local", internalLocal, both, "pod-1", "remote-1"},
		{"internal-local-without-endpoint", internalLocal, both[1:], "", "remote-1"},
		{"internal-local-host-network", host, []objects.Place{c.on(c.Lab.Node)}, "node-1", ""},
		{"prefer-same-zone", prefer(corev1.ServiceTrafficDistributionPreferSameZone), both, "pod-1", "remote-1"},
		{"prefer-close", prefer(corev1.ServiceTrafficDistributionPreferClose), both, "pod-1", "remote-1"},
		{"prefer-same-zone-where-there-is-none", prefer(corev1.ServiceTrafficDistributionPreferSameZone), both[:1], "pod-1", "pod-1"},
		{"prefer-same-node", prefer(corev1.ServiceTrafficDistributionPreferSameNode), both, "pod-1", "remote-1"},
		{"prefer-nothing", func(*corev1.Service) {}, both, "pod-1 remote-1", "pod-1 remote-1"},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			to := c.service(t, s.name, s.change)
			c.scaled(t, s.name, s.places...)
			for i, names := range []string{s.near, s.far} {
				from := []*traffic.Client{c.clients[i], c.clients[2+i]} // the pod, and the node
				if names == "" {
					checkOutcome(t, from, to, lab.TimedOut)
				} else {
					checkAnswered(t, from, to, strings.Fields(names)...)
				}
			}
		})
	}
}

// TestTrafficDistribution has three zones. That of the first
// node has a second node, and the third zone one, too: objects only, whose Pods are
// those of the lab's second node to packets.
func TestTrafficDistribution(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 3)
	ctx := clustertest.Context(t)
	elsewhere := map[string]string{}
	for _, zone := range []string{"zone-a", "zone-c"} {
		name := c.NodeName(c.Lab.Remote) + "-" + zone
		_, err := objects.CreateNode(ctx, c.Client, objects.Node(name, zone, c.Lab.Remote))
		clustertest.Must(t, err)
		t.Cleanup(func() { clustertest.Must(t, objects.DeleteNode(context.WithoutCancel(t.Context()), c.Client, name)) })
		elsewhere[zone] = name
	}
	places := []objects.Place{c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0]), c.At(c.Lab.RemotePods[1]), c.At(c.Lab.RemotePods[2])}
	places[1].Node, places[2].Node = elsewhere["zone-a"], elsewhere["zone-c"]
	const node, neighbour, far, remote = "pod-1", "remote-1", "remote-2", "remote-3"
	for how, all := range map[string][]struct {
		gone      int // Pods that are not ready any more, in the order of the places
		near, far []string
	}{
		corev1.ServiceTrafficDistributionPreferSameZone: {
			{0, []string{node, neighbour}, []string{remote}},
			{1, []string{neighbour}, []string{remote}},
			{2, []string{far, remote}, []string{remote}},
			{0, []string{node, neighbour}, []string{remote}},
		},
		corev1.ServiceTrafficDistributionPreferSameNode: {
			{0, []string{node}, []string{remote}},
			{1, []string{neighbour}, []string{remote}},
			{2, []string{far, remote}, []string{remote}},
			{0, []string{node}, []string{remote}},
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ctx, app := clustertest.Context(t), strings.ToLower(how)
			s := c.create(t, app, prefer(how), nodePorts)
			c.scaled(t, app, places...)
			for _, step := range all {
				for i, at := range places {
					_, err := c.ns.SetReady(ctx, app+"-"+string(rune('1'+i)), at, i >= step.gone)
					clustertest.Must(t, err)
				}
				clustertest.Must(t, c.ns.AwaitEndpoints(ctx, app, len(places)-step.gone))
				c.awaitRules(t)
				checkAnswered(t, []*traffic.Client{c.near, c.clients[2]}, traffic.Service(s, port), step.near...)
				checkAnswered(t, []*traffic.Client{c.far, c.clients[3]}, traffic.Service(s, port), step.far...)
				checkAnswered(t, c.clients[4:], c.both(s)[0], step.near...) // the node's hints, for any client
			}
		})
	}
}

// TestHeadlessServicesAreIgnored adds the label to slices, and removes it. No controller
// does that.
func TestHeadlessServicesAreIgnored(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	to := c.manualService(t, "toggled", c.Lab.RemotePods[0])
	c.awaitRules(t)
	checkAnswered(t, c.clients, to, "remote-1")
	for range 2 {
		for _, headless := range []bool{true, false} {
			for _, s := range slicesOf("toggled", c.Lab.RemotePods[:1]) {
				if headless {
					s.Labels[corev1.IsHeadlessService] = ""
				}
				c.update(t, s)
			}
			c.awaitRules(t)
			if headless {
				checkOutcome(t, c.clients, to, lab.Refused)
			} else {
				checkAnswered(t, c.clients, to, "remote-1")
			}
		}
	}
}

func (c *scene) update(t *testing.T, s *discoveryv1.EndpointSlice) {
	t.Helper()
	_, err := c.ns.UpdateSlice(clustertest.Context(t), s)
	clustertest.Must(t, err)
}
