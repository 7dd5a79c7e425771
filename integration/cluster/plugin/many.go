package plugin

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/kubelet"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/lab"
)

// Many is a cluster of simulated nodes: objects in the API, with pods of kube-vmap that one
// Kubelet serves.
type Many struct {
	*Cluster
	Kubelet *kubelet.Kubelet
}

// NewMany starts a cluster of simulated nodes, node-0001 and on. What run returns for a
// node is its kube-vmap.
func NewMany(t testing.TB, nodes int, run func(i int) kubelet.Run) *Many {
	t.Helper()
	c := &Many{Cluster: &Cluster{Cluster: clustertest.Alone(t, lab.Options{})}}
	c.plugins = pluginFolder(t)
	ctx := t.Context() // many nodes can take longer than [clustertest.Patience] on a busy machine
	// The lab's own node is none of them.
	clustertest.Must(t, objects.DeleteNode(ctx, c.Client, c.NodeName(c.Lab.Node)))
	var err error
	c.Kubelet, err = kubelet.Start(c.Lab.Outside)
	clustertest.Must(t, err)
	t.Cleanup(func() { clustertest.Must(t, c.Kubelet.Close()) })
	c.Deploy(t)
	set, err := c.proxySet(ctx)
	clustertest.Must(t, err)
	var group errgroup.Group
	group.SetLimit(64)
	for i := 1; i <= nodes; i++ {
		name, pod := ManyName(i), ManyPod(i)
		c.Kubelet.Add(Namespace, pod, Container, run(i))
		group.Go(func() error {
			if err := c.createNode(ctx, name, fmt.Sprintf("127.1.%d.%d", i>>8, i&0xff)); err != nil {
				return err
			}
			return c.createProxyPod(ctx, set, name, pod)
		})
	}
	clustertest.Must(t, group.Wait())
	return c
}

// ManyName returns the name of the i-th node.
func ManyName(i int) string { return fmt.Sprintf("node-%04d", i) }

// ManyPod returns the name of its pod of kube-vmap.
func ManyPod(i int) string { return fmt.Sprintf("kube-vmap-%05d", i) }

// createNode creates a node whose kubelet the API server finds at an address.
func (c *Many) createNode(ctx context.Context, name, addr string) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: nodeStatus(addr)}
	_, err := c.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	return err
}

// SetAddress changes where the API server finds the kubelet of a node.
func (c *Many) SetAddress(ctx context.Context, name, addr string) error {
	n, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	n.Status = nodeStatus(addr)
	_, err = c.Client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	return err
}

func nodeStatus(addr string) (s corev1.NodeStatus) {
	s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}
	s.DaemonEndpoints.KubeletEndpoint.Port = objects.KubeletPort
	s.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "OfTheTests"}}
	return s
}
