package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/plane"
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

// Output is the result of a command.
type Output struct {
	Command        string
	Stdout, Stderr string
	Code           int
}

// String returns all of it, for messages.
func (o Output) String() string {
	return fmt.Sprintf("$ %s\n%s%s(exit code %d)", o.Command, o.Stdout, o.Stderr, o.Code)
}

// Kubectl runs kubectl as an administrator at the machine of a user, which is the host outside.
func (c *Cluster) Kubectl(t testing.TB, args ...string) Output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	out := Output{Command: "kubectl " + strings.Join(args, " ")}
	cmd := c.Command(clustertest.Context(t), t, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", out.Command, err)
	}
	out.Stdout, out.Stderr = stdout.String(), stderr.String()
	if exit != nil {
		out.Code = exit.ExitCode()
	}
	return out
}

// Command returns kubectl at the machine of a user with its plugins, not started yet, for tests that
// read its output meanwhile.
func (c *Cluster) Command(ctx context.Context, t testing.TB, args ...string) *lab.Cmd {
	t.Helper()
	kubectl, err := plane.Program("kubectl")
	clustertest.Must(t, err)
	cmd := c.Lab.Outside.Command(ctx, kubectl, args...)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+c.AdminKubeconfig(), "PATH="+c.plugins+":"+filepath.Dir(kubectl)+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
	return cmd
}
