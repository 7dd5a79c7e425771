package plugin_test

import (
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
)

// testExec is what the simulated kubelet does, through the real API server and kubectl:
// what tests of the plugin rely on.
func testExec(t *testing.T, c *plugin.Cluster) {
	ns := c.Namespace(t)
	_, err := ns.CreateService(clustertest.Context(t), objects.Service("web", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	c.AwaitRules(t)
	for _, n := range c.Nodes {
		out := c.Kubectl(t, "exec", "-n", plugin.Namespace, n.Pod, "-c", plugin.Container, "--", plugin.Binary, "get", "svc", "-A")
		if out.Code != 0 || !strings.Contains(out.Stdout, "web") {
			t.Errorf("%s: %s", n.Name, out)
		}
	}
	n := c.Nodes[1]
	exec := func(args ...string) plugin.Output {
		return c.Kubectl(t, append([]string{"exec", "-n", plugin.Namespace, n.Pod, "--"}, args...)...)
	}
	t.Run("exit code and stderr", func(t *testing.T) {
		out := exec(plugin.Binary, "no-such-command")
		if out.Code != 1 && out.Code != 2 || !strings.Contains(out.Stderr, "no-such-command") || out.Stdout != "" {
			t.Error(out)
		}
	})
	t.Run("no shell", func(t *testing.T) {
		if out := exec("sh", "-c", "id"); out.Code == 0 || !strings.Contains(out.Stderr, `exec: "sh": executable file not found`) {
			t.Error(out)
		}
	})
	t.Run("connection cut", func(t *testing.T) {
		n.Kubelet.CutAfter(10)
		defer n.Kubelet.CutAfter(-1)
		// The API server of 1.36 reports success: only the answer shows that it is not whole.
		if out := exec(plugin.Binary, "get", "svc", "-A"); len(out.Stdout) != 10 {
			t.Error(out)
		}
	})
	t.Run("hanging", func(t *testing.T) {
		const pause = 500 * time.Millisecond
		n.Kubelet.Hang()
		timer := time.AfterFunc(pause, n.Kubelet.Resume)
		defer timer.Stop()
		if out := exec(plugin.Binary, "get", "svc", "-A"); out.Code != 0 || out.Took < pause {
			t.Error(out)
		}
	})
	t.Run("kubelet down", func(t *testing.T) {
		clustertest.Must(t, n.Kubelet.Down())
		defer func() { clustertest.Must(t, n.Kubelet.Up()) }()
		if out := exec(plugin.Binary, "get", "svc", "-A"); out.Code == 0 || !strings.Contains(out.Stderr, "connection refused") {
			t.Error(out)
		}
	})
	t.Run("again", func(t *testing.T) {
		if out := exec(plugin.Binary, "get", "svc", "-A"); out.Code != 0 {
			t.Error(out)
		}
	})
}
