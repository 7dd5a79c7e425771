package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// flow is a UDP client that never changes its port, and so keeps its entry in
// connection tracking for as long as it asks.
type flow struct {
	*lab.Flow
	name string
}

// flows opens one of each family.
func flows(t *testing.T, from *lab.Host, to traffic.Target) (out []flow) {
	t.Helper()
	for _, f := range model.Families {
		opened, err := from.Flow(model.UDP, netip.AddrPort{}, to.At(f))
		clustertest.Must(t, err)
		t.Cleanup(func() { clustertest.Must(t, opened.Close()) })
		out = append(out, flow{opened, fmt.Sprintf("%s to %s over %s", from, to.Name, f)})
	}
	return out
}

// reach asks all the time until who is named answers.
func (f flow) reach(ctx context.Context, name string) error {
	const pause = 20 * time.Millisecond
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		a, err := f.Ask(traffic.Timeout / 4)
		if err != nil || a.By == name {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), fmt.Errorf("%s: %s, want an answer by %s", f.name, a, name))
		case <-ticker.C:
		}
	}
}

// reached is reach for all clients.
func reached(t *testing.T, all []flow, name string) {
	t.Helper()
	for _, f := range all {
		clustertest.Must(t, f.reach(clustertest.Context(t), name))
	}
}

// TestUDPClientsReachTheNewPod has clients go on from one port while the
// Pod that serves them is replaced by one on the other node, or on the same one.
// The first one's server still answers whom it is left to.
func TestUDPClientsReachTheNewPod(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 2)
	plain := func(*corev1.Service) {}
	near, far := c.Lab.Pods[2].Host, c.Lab.RemotePods[2].Host
	cluster := func(_ *testing.T, s *corev1.Service) traffic.Target { return traffic.Service(s, port) }
	node := func(_ *testing.T, s *corev1.Service) traffic.Target { return traffic.NodePort(s, c.Lab.Node) }
	balancer := func(t *testing.T, s *corev1.Service) traffic.Target { t.Helper(); return c.balancer(t, s.Name) }
	for _, s := range []struct {
		name   string
		change func(*corev1.Service)
		at     func(*testing.T, *corev1.Service) traffic.Target
		from   *lab.Host
		then   *lab.Pod
	}{
		{"node-port", nodePorts, node, c.Lab.Outside, c.Lab.RemotePods[0]},
		{"node-port-from-a-pod", nodePorts, node, far, c.Lab.RemotePods[0]},
		{"cluster-ip", plain, cluster, near, c.Lab.RemotePods[0]},
		{"cluster-ip-internal-local", internalLocal, cluster, near, c.Lab.Pods[1]},
		{"cluster-ip-from-a-node", plain, cluster, c.Lab.Node.Host, c.Lab.RemotePods[0]},
		{"balancer-other-node", balanced, balancer, c.Lab.Outside, c.Lab.RemotePods[0]},
		{"balancer-same-node", balanced, balancer, c.Lab.Outside, c.Lab.Pods[1]},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			ctx := clustertest.Context(t)
			all := flows(t, s.from, s.at(t, c.create(t, s.name, s.change)))
			_, err := c.ns.CreatePod(ctx, s.name+"-1", s.name, c.At(c.Lab.Pods[0]))
			clustertest.Must(t, err)
			reached(t, all, "pod-1")
			_, err = c.ns.CreatePod(ctx, s.name+"-2", s.name, c.At(s.then))
			clustertest.Must(t, err)
			clustertest.Must(t, c.ns.DeletePod(ctx, s.name+"-1"))
			reached(t, all, s.then.Name)
		})
	}
	t.Run("that becomes ready", func(t *testing.T) {
		t.Parallel()
		c.becomesReady(t)
	})
	t.Run("at its other port", func(t *testing.T) {
		t.Parallel()
		c.targetChanges(t)
	})
	t.Run("after there was none", func(t *testing.T) {
		t.Parallel()
		c.comesBack(t)
	})
}

// becomesReady has clients ask before there is anybody to answer.
func (c *twoNodes) becomesReady(t *testing.T) {
	ctx, name, at := clustertest.Context(t), "unready", c.At(c.Lab.RemotePods[0])
	_, err := c.ns.CreatePendingPod(ctx, name, name, at.Node)
	clustertest.Must(t, err)
	_, err = c.ns.SetReady(ctx, name, at, false)
	clustertest.Must(t, err)
	s := c.create(t, name, nodePorts)
	all := append(flows(t, c.Lab.Pods[2].Host, traffic.Service(s, port)), flows(t, c.Lab.Outside, traffic.NodePort(s, c.Lab.Node))...)
	c.awaitRules(t)
	for _, f := range all {
		a, err := f.Ask(traffic.Timeout)
		clustertest.Must(t, err)
		if a.Outcome != lab.Refused {
			t.Errorf("%s: %s, want that it is refused", f.name, a)
		}
	}
	_, err = c.ns.SetReady(ctx, name, at, true)
	clustertest.Must(t, err)
	reached(t, all, "remote-1")
}

// targetChanges closes the port that the Pod served before.
func (c *twoNodes) targetChanges(t *testing.T) {
	const before, after = 9080, 9081
	pod := c.Lab.Pods[1]
	server, err := pod.Serve(model.UDP, before)
	clustertest.Must(t, err)
	s := c.create(t, "target", nodePorts, func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{objects.Port(model.UDP, port, before)}
	})
	c.scaled(t, "target", c.At(pod))
	all := flows(t, c.Lab.Outside, traffic.NodePort(s, c.Lab.Remote))
	reached(t, all, "pod-2")
	clustertest.Must(t, server.Close())
	_, err = pod.Serve(model.UDP, after)
	clustertest.Must(t, err)
	c.change(t, "target", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(after) })
	reached(t, all, "pod-2")
}

// comesBack has the last endpoint go, and with it the flows to it: in kube-proxy only
// since 1.37, and not those to node ports.
func (c *twoNodes) comesBack(t *testing.T) {
	ctx, name := clustertest.Context(t), "back"
	s := c.create(t, name, nodePorts)
	all := append(flows(t, c.Lab.Pods[2].Host, traffic.Service(s, port)), flows(t, c.Lab.Outside, traffic.NodePort(s, c.Lab.Node))...)
	_, err := c.ns.CreatePod(ctx, name+"-1", name, c.At(c.Lab.Pods[0]))
	clustertest.Must(t, err)
	reached(t, all, "pod-1")
	clustertest.Must(t, c.ns.DeletePod(ctx, name+"-1"))
	for _, f := range all {
		clustertest.Must(t, eventually.Try(ctx, func() error {
			a, err := f.Ask(traffic.Timeout)
			if err == nil && a.Outcome != lab.Refused {
				err = fmt.Errorf("%s: %s, want that it is refused", f.name, a)
			}
			return err
		}))
	}
	_, err = c.ns.CreatePod(ctx, name+"-2", name, c.At(c.Lab.RemotePods[0]))
	clustertest.Must(t, err)
	reached(t, all, "remote-1")
}
