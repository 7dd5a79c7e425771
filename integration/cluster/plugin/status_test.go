package plugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/eventually"
	"kube-vmap/model"
)

// testStatus asks nodes that do their work.
func testStatus(t *testing.T, c *plugin.Cluster) {
	for _, kubeconfig := range []string{c.AdminKubeconfig(), user(t, c, "viewer", "kube-vmap-viewers")} {
		for _, output := range []string{"", "wide"} {
			out := c.KubectlAs(t, kubeconfig, "vmap", "status", "-o", output)
			if out.Code != 0 || strings.Count(out.Stdout, "of-the-tests   True    0     ") != len(c.Nodes) {
				t.Error(out)
			}
		}
	}
}

// row is what a test reads of a node.
type row struct {
	Node, Severity string
	Lag            *struct{ Services, EndpointSlices int }
	Problems       []struct{ Severity, Text string }
	Health         *struct {
		Repairs  struct{ Count int }
		Refused  struct{ Ports, Objects int }
		Warnings struct{ Count int }
		Tables   []struct{ State string }
	}
}

// String returns the node with its problems.
func (r *row) String() string { return fmt.Sprintf("%+v", *r) }

// has checks the severity of a node and that a problem of it has the text.
func (r *row) has(severity, text string) error {
	for _, p := range r.Problems {
		if r.Severity == severity && strings.Contains(p.Text, text) {
			return nil
		}
	}
	return fmt.Errorf("want %s with %q, have %s", severity, text, r)
}

// anyCode is for every exit code.
const anyCode = -1

// statusOf asks all nodes, and checks the exit code and that the worst node comes first.
func statusOf(t *testing.T, c *plugin.Cluster, code int, args ...string) map[string]*row {
	t.Helper()
	out := c.Kubectl(t, append([]string{"vmap", "status", "-o", "json"}, args...)...)
	var list struct{ Items []*row }
	if err := json.Unmarshal([]byte(out.Stdout), &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out.Code != code && code != anyCode {
		t.Errorf("want exit code %d: %s", code, out)
	}
	rows := map[string]*row{}
	for i, r := range list.Items {
		if rows[r.Node] = r; i > 0 && list.Items[i-1].Severity == "OK" && r.Severity != "OK" {
			t.Errorf("%s is not among the first: %s", r.Node, out)
		}
	}
	if len(rows) != len(c.Nodes) {
		t.Errorf("not all nodes are listed: %s", out)
	}
	return rows
}

// TestStatusShowsEveryFault breaks one node after the other. The tables have no owner, so
// that other programs can change them.
func TestStatusShowsEveryFault(t *testing.T) {
	t.Parallel()
	c := plugin.New(t, 1, "--protect-tables=false")
	ns := c.Namespace(t)
	create := func(name string) {
		t.Helper()
		_, err := ns.CreateService(clustertest.Context(t), objects.Service(name, objects.Ports(80, 8080)...))
		clustertest.Must(t, err)
	}
	create("web")
	c.AwaitRules(t)
	first, second, third := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	for name, r := range statusOf(t, c, 0) {
		if r.Lag == nil || *r.Lag != (struct{ Services, EndpointSlices int }{}) || r.Health.Tables[model.IPv6].State != "Open" {
			t.Errorf("%s: %s", name, r)
		}
	}

	t.Run("changed by hand", func(t *testing.T) {
		nft(t, second, "delete chain ip6 kube-vmap nat-output")
		eventually.Succeeds(t, "the repair is shown", func() error {
			r := statusOf(t, c, 0)[second.Name]
			if r.Health.Repairs.Count != 1 {
				return fmt.Errorf("%s", r)
			}
			return r.has("Notice", "tables that another program changed were repaired")
		})
	})

	t.Run("unusable", func(t *testing.T) {
		s := objects.Service("unusable", objects.Ports(80, 8080)...)
		s.Annotations = map[string]string{"kube-vmap.io/scheduler": "no-such-scheduler"}
		_, err := ns.CreateService(clustertest.Context(t), s)
		clustertest.Must(t, err)
		c.AwaitRules(t)
		for _, r := range statusOf(t, c, 0) {
			if err := r.has("Notice", "1 object cannot be used, wholly or in part"); err != nil || r.Health.Refused.Objects != 1 {
				t.Errorf("%s: %v", r, err)
			}
		}
		clustertest.Must(t, ns.DeleteService(clustertest.Context(t), "unusable"))
	})

	t.Run("cut off", func(t *testing.T) {
		nft(t, first, "table inet cut { chain out { type filter hook output priority 0; tcp dport 6443 drop; }; "+
			"chain in { type filter hook input priority 0; tcp sport 6443 drop; }; }")
		create("later")
		if err := statusOf(t, c, 1)[first.Name].has("Problem", "behind the API server: 1 Service and"); err != nil {
			t.Error(err)
		}
		// What still arrives is answered with a reset, so that the node notices soon.
		nft(t, first, "delete table inet cut; table inet cut { chain out { type filter hook output priority 0; tcp dport 6443 reject with tcp reset; }; }")
		eventually.Succeeds(t, "the node itself notices", func() error {
			return statusOf(t, c, anyCode)[first.Name].has("Problem", "the API server cannot be followed for ")
		})
		nft(t, first, "delete table inet cut")
		eventually.Succeeds(t, "it catches up", func() error {
			if out := c.Kubectl(t, "vmap", "status"); out.Code != 0 {
				return errors.New(out.String())
			}
			return nil
		})
	})

	t.Run("stopped and killed", func(t *testing.T) {
		clustertest.Must(t, second.Proxy.Signal(syscall.SIGSTOP))
		third.Proxy.Kill()
		create("last")
		rows := statusOf(t, c, 2)
		if err := rows[second.Name].has("Unknown", "is stopped or gets no processor time"); err != nil {
			t.Error(err)
		}
		if err := rows[third.Name].has("Unknown", "no kube-vmap answers"); err != nil {
			t.Error(err)
		}
		clustertest.Must(t, c.SetProxyPodReady(clustertest.Context(t), second.Pod, false))
		clustertest.Must(t, second.Proxy.Signal(syscall.SIGCONT))
		third.Kubelet.Hang()
		defer third.Kubelet.Resume()
		rows = statusOf(t, c, 2, "--node-timeout", "10s")
		if err := rows[second.Name].has("Problem", "is not ready"); err != nil {
			t.Error(err)
		}
		if err := rows[third.Name].has("Unknown", "no answer within 10s"); err != nil {
			t.Error(err)
		}
	})
}
