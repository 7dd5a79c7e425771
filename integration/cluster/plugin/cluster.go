package plugin

import (
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/lab"
)

// The pods of kube-vmap, as deploy/base creates them.
const (
	Namespace = "kube-system"
	Container = "kube-vmap"
	Binary    = "/kube-vmap"
)

// Cluster is a control plane with three nodes, for one test.
type Cluster struct {
	*clustertest.Cluster
	// Nodes are the nodes in the order of their numbers.
	Nodes []*Node

	plugins string // folder with the built kubectl-vmap
}

// Node is one of the cluster's nodes.
type Node struct {
	*lab.Node
	// Name is the name in the API.
	Name string
	// Proxy is the node's kube-vmap, which runs in Pod.
	Proxy *clustertest.Proxy
	// Pod is the name of the pod of kube-vmap in [Namespace].
	Pod string
}

// New starts a cluster with so many pods on each of its three nodes, with kube-vmap on
// every node. It skips the test if the machine cannot have all that.
func New(t testing.TB, pods int) *Cluster {
	t.Helper()
	program := clustertest.Program(t)
	c := &Cluster{Cluster: clustertest.Alone(t, lab.Options{Pods: pods, RemotePods: pods, ThirdPods: pods})}
	c.plugins = filepath.Dir(built.Plugin.Path())
	kubeconfig := c.Kubeconfig(t, c.Server)
	for _, n := range c.Lab.Nodes() {
		node := &Node{Node: n, Name: c.NodeName(n), Pod: "kube-vmap-" + strings.ReplaceAll(n.Name, "-", "")}
		node.Proxy = c.StartProxy(t, n, kubeconfig)
		serveExec(t, n.Host, node.Pod, program)
		c.Nodes = append(c.Nodes, node)
	}
	for _, n := range c.Nodes {
		c.CreateProxyPod(t, n.Name, n.Pod)
		clustertest.Must(t, n.Proxy.AwaitReady(clustertest.Context(t)))
	}
	return c
}

// AwaitRules waits until the rule set of every node is that of the API's objects.
func (c *Cluster) AwaitRules(t testing.TB) {
	t.Helper()
	for _, n := range c.Nodes {
		n.Proxy.AwaitTruth(t)
	}
}
