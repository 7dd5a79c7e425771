package clustertest

import (
	"context"
	"path/filepath"
	"testing"

	"kube-vmap/integration/cluster/daemon"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

// The account that deploy/base gives to the proxy.
const (
	accountNamespace = "kube-system"
	account          = "kube-vmap"
)

// Proxy is kube-vmap on one of the cluster's nodes.
type Proxy struct {
	*daemon.Daemon
	// Truth computes the expected rule set of the node. Its Config is that of
	// [Cluster.Proxy]'s own flags; change it for others.
	Truth *truth.Truth
}

// Proxy runs the built kube-vmap on a node, with the rights that deploy/base gives
// to its account, and waits until it is ready. The proxy is killed with the test.
func (c *Cluster) Proxy(t testing.TB, n *lab.Node, flags ...string) *Proxy {
	t.Helper()
	p := c.StartProxy(t, n, c.Kubeconfig(t, c.Server), flags...)
	Must(t, p.AwaitReady(Context(t)))
	return p
}

// StartProxy is [Cluster.Proxy] with the caller's kubeconfig, and does not wait.
func (c *Cluster) StartProxy(t testing.TB, n *lab.Node, kubeconfig string, flags ...string) *Proxy {
	t.Helper()
	name := c.NodeName(n)
	args := append([]string{
		"--kubeconfig=" + kubeconfig, "--hostname-override=" + name, "--cluster-cidr=" + truth.PodRanges,
	}, flags...)
	return c.Run(t, n, process.Config{Args: args})
}

// Run starts the built kube-vmap on a node with the given arguments, environment and
// capabilities only. Another program may be one that executes kube-vmap.
func (c *Cluster) Run(t testing.TB, n *lab.Node, d process.Config) *Proxy {
	t.Helper()
	if d.Program == "" {
		d.Program = Program(t)
	}
	d.Host = n.Host
	return &Proxy{Start(t, d), &truth.Truth{Client: c.Client, Config: truth.Config(c.NodeName(n)), Host: n.Host}}
}

// Start starts a proxy of any kind. It is killed after the test, and its log is printed if
// the test fails.
func Start(t testing.TB, c process.Config) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Start(context.Background(), c)
	Must(t, err)
	t.Cleanup(func() {
		d.Kill()
		if t.Failed() {
			t.Logf("log of the proxy on %s:\n%s", c.Host, d.Log.Tail())
		}
	})
	return d
}

// Kubeconfig applies deploy/base and returns the path of a kubeconfig for the proxy's
// account. server is the URL of the API server.
func (c *Cluster) Kubeconfig(t testing.TB, server string) string {
	t.Helper()
	c.Deploy(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	Must(t, c.ServiceAccountKubeconfig(Context(t), accountNamespace, account, server, path))
	return path
}

// AwaitTruth waits until the node's rule set is that of the objects in the API.
func (p *Proxy) AwaitTruth(t testing.TB) {
	t.Helper()
	Must(t, p.Truth.Await(Context(t)))
}
