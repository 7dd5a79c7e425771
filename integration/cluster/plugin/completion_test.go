package plugin_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/daemon/built"
)

func TestMain(m *testing.M) { clustertest.Main(m, built.Plugin) }

// sharing are the tests that break no part of the cluster, so that they can share one. Each
// has a namespace of its own.
var sharing = []struct {
	name string
	test func(*testing.T, *plugin.Cluster)
}{
	{"completion", testCompletion},
	{"page", testPage},
	{"permissions", testPermissions},
}

func TestSharedCluster(t *testing.T) {
	t.Parallel()
	c := plugin.New(t, 3)
	// Several of the tests are viewers, too.
	_, err := c.Plane.Kubectl(clustertest.Context(t), "apply", "--server-side", "-k", filepath.Join(clustertest.Root(t), "deploy", "kubectl"))
	clustertest.Must(t, err)
	for _, s := range sharing {
		t.Run(s.name, func(t *testing.T) { s.test(t, c) })
	}
}

// testCompletion completes command lines as shells do, by kubectl.
func testCompletion(t *testing.T, c *plugin.Cluster) {
	ns := c.Namespace(t)
	ctx := clustertest.Context(t)
	for _, name := range []string{"web", "webmail", "shop"} {
		_, err := ns.CreateService(ctx, objects.Service(name, objects.Ports(80, 8080)...))
		clustertest.Must(t, err)
	}
	_, err := ns.CreatePod(ctx, "cart-1", "cart", c.At(c.Lab.Pods[2]))
	clustertest.Must(t, err)
	folder, err := filepath.Abs("../../../cmd/kubectl-vmap") // which has kubectl_complete-vmap
	clustertest.Must(t, err)

	for line, want := range map[string][]string{
		"vmap expl":                                                  {"explain"},
		"vmap get -n " + ns.Name + " svc web":                        {"web", "webmail"},
		"vmap explain -n " + ns.Name + " --to svc/we":                {"svc/web", "svc/webmail"},
		"vmap explain --to svc/" + ns.Name + "/sh":                   {"svc/" + ns.Name + "/shop"},
		"vmap explain -n " + ns.Name + " --from p":                   {"pod/"},
		"vmap explain -n " + ns.Name + " --from pod/":                {"pod/cart-1"},
		"vmap explain --from node/" + c.Nodes[0].Name:                {"node/" + c.Nodes[0].Name},
		"vmap get svc --node " + c.Nodes[1].Name[:2]:                 {c.Nodes[0].Name, c.Nodes[1].Name, c.Nodes[2].Name},
		"vmap get svc -n " + ns.Name:                                 {ns.Name},
		"vmap get svc -o wi":                                         {"json", "name", "wide", "yaml"},
		"vmap get svc --kubeconfig /nonexistent -n " + ns.Name + " ": nil,
	} {
		cmd := c.Command(ctx, t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		for i, v := range cmd.Env {
			if path, is := strings.CutPrefix(v, "PATH="); is {
				cmd.Env[i] = "PATH=" + folder + ":" + path
			}
		}
		out, err := cmd.Output()
		var got []string
		for l := range strings.Lines(string(out)) {
			if word, _, _ := strings.Cut(strings.TrimSpace(l), "\t"); word != "" && word[0] != ':' {
				got = append(got, word)
			}
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %q, want %q", line, err, got, want)
		}
	}
}
