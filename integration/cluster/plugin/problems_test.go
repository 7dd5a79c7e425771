package plugin_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
)

// testProblems has a Service that only the node of its endpoint serves, one without
// endpoints, and one that is balanced.
func testProblems(t *testing.T, c *plugin.Cluster) {
	ns, ctx := c.Namespace(t), clustertest.Context(t)
	create := func(name string, change func(*corev1.Service)) {
		t.Helper()
		s := objects.Service(name, objects.Ports(80, 8080)...)
		change(s)
		_, err := ns.CreateService(ctx, s)
		clustertest.Must(t, err)
	}
	local := corev1.ServiceInternalTrafficPolicyLocal
	create("local", func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &local })
	create("balanced", func(*corev1.Service) {})
	create("empty", func(*corev1.Service) {})
	for _, app := range []string{"local", "balanced"} {
		_, err := ns.CreatePod(ctx, app, app, c.At(c.Lab.Pods[0]))
		clustertest.Must(t, err)
		clustertest.Must(t, ns.AwaitEndpoints(ctx, app, 1))
	}
	c.AwaitRules(t)

	out := c.KubectlAs(t, user(t, c, "viewer", "kube-vmap-viewers"), "vmap", "problems", "-n", ns.Name, "-o", "json", "--observe", "0")
	var list struct {
		Items []struct {
			Object, Severity, Reason, Field string
			Nodes, Families, Ports          []string
		}
	}
	if err := json.Unmarshal([]byte(out.Stdout), &list); err != nil || out.Code != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	all := []string{c.Nodes[0].Name, c.Nodes[1].Name, c.Nodes[2].Name}
	for _, want := range []struct {
		name, severity, reason, field string
		nodes                         []string
	}{
		{"local", "Problem", "NoneLocal", "spec.internalTrafficPolicy: Local", all[1:]},
		{"empty", "Problem", "NoEndpoints", "spec.selector: app=empty", all},
	} {
		found := false
		for _, p := range list.Items {
			if p.Object == "Service "+ns.Name+"/"+want.name && p.Reason == want.reason {
				found = p.Severity == want.severity && strings.HasPrefix(p.Field, want.field) && slices.Equal(p.Nodes, want.nodes) &&
					len(p.Families) == 2 && len(p.Ports) == 3
			}
		}
		if !found {
			t.Errorf("no %+v in %s", want, out)
		}
	}
	if strings.Contains(out.Stdout, "Service "+ns.Name+"/balanced") {
		t.Errorf("a Service is listed that is plainly balanced: %s", out)
	}
	text := c.Kubectl(t, "vmap", "problems", "-n", ns.Name)
	if text.Code != 1 || !strings.Contains(text.Stdout, "clients on "+all[1]+", "+all[2]+" are dropped") || !strings.Contains(text.Stdout, "pods there have app=local, app=balanced") || !strings.Contains(text.Stdout, "3 nodes, 3 Services: ") {
		t.Error(text)
	}
}
