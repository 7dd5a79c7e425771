package laptop_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/laptop"
	"kube-vmap/integration/eventually"
)

// testPermissions is what members of the group of deploy/kubectl may run, and others.
func testPermissions(t *testing.T, c *laptop.Cluster) {
	n := c.Nodes[0]
	_, err := c.Plane.Kubectl(clustertest.Context(t), "apply", "--server-side", "-k", filepath.Join(clustertest.Root(t), "deploy", "kubectl"))
	clustertest.Must(t, err)
	viewer, stranger := user(t, c, "viewer", "kube-vmap-viewers"), user(t, c, "stranger", "others")
	// run executes a command in a container and reports whether kubelet was asked to.
	run := func(kubeconfig, pod, container string, command ...string) (laptop.Output, bool) {
		before := len(n.Kubelet.Calls())
		out := c.KubectlAs(t, kubeconfig, append([]string{"exec", "-n", laptop.Namespace, pod, "-c", container, "--"}, command...)...)
		return out, len(n.Kubelet.Calls()) > before
	}
	const refused = "the role kube-vmap-viewer permits"
	eventually.Succeeds(t, "the policy is in force", func() error {
		if out, _ := run(viewer, n.Pod, laptop.Container, laptop.Binary, "no-such-command"); !strings.Contains(out.Stderr, refused) {
			return errors.New(out.String())
		}
		return nil
	})

	for _, command := range []string{
		"status -o json --health", "status -o json --tally", "status -o json", "status -o json --namespace shop --name web --brief", "get svc -A",
		"get endpoints -n shop web -o wide",
		"get fe -A --field-selector spec.verdict!=Balance --no-headers", "get svc --kernel -o=yaml",
		"explain --from 10.244.1.7 --to 10.96.0.10:53/udp -o json", "explain --from fd00::7 --to [fd00::a]:53/udp",
		"problems -o json", "top --once -n shop", "top --count=2 --interval 200ms --sort active",
		"diff", "bundle -o -", "render --kernel", "version", "get --help",
	} {
		if out, ran := run(viewer, n.Pod, laptop.Container, append([]string{laptop.Binary}, strings.Fields(command)...)...); !ran {
			t.Errorf("a viewer may not run %s: %s", command, out)
		}
	}
	for command, want := range map[string]string{
		"explain --from node/" + n.Name + " --to svc/default/kubernetes:https": "ClusterIP of default/kubernetes:https",
		"version":               "on 3 nodes",
		"status":                c.Nodes[2].Name,
		"problems -A":           "",
		"get fe -A --all-nodes": c.Nodes[2].Name,
		"get endpoints -n default kubernetes --node " + n.Name + " -o wide": "6443",
		"diff":                        "0 of 3 nodes differ",
		"top --once --interval=200ms": "3 nodes",
		"bundle -o " + filepath.Join(t.TempDir(), "all.tgz"): "all.tgz",
	} {
		if out := c.KubectlAs(t, viewer, append([]string{"vmap"}, strings.Fields(command)...)...); !strings.Contains(out.Stdout+out.Stderr, want) || strings.Contains(out.Stderr, "no permission") {
			t.Errorf("a viewer cannot use kubectl vmap: %s", out)
		}
	}
	for _, command := range [][]string{
		{laptop.Binary, "cleanup"},
		{laptop.Binary, "--cleanup"},
		{laptop.Binary, "get", "--cleanup"},
		{laptop.Binary},
		{"sh"},
		{"/bin/sh", "-c", "/kube-vmap get"},
		{"kube-vmap", "get", "svc"},
		{laptop.Binary, "getsvc"},
		{laptop.Binary, "preflight"},
		{laptop.Binary, "shadow"},
		{laptop.Binary, "explain", "--from", "10.0.0.1", "--to", "10.0.0.2:80", "--trace"},
		{laptop.Binary, "explain", "--trace=true"},
		{laptop.Binary, "bundle"},
		{laptop.Binary, "bundle", "-o", "file"},
		{laptop.Binary, "bundle", "-o", "-", "file"},
		{laptop.Binary, "bundle", "-ofile"},
		{laptop.Binary, "bundle", "--output=/dev/shm/file"},
		{laptop.Binary, "bundle", "-o", "-", "-o", "file"},
		{laptop.Binary, "get", "svc", "--status-socket", "/run/containerd/containerd.sock"},
		{laptop.Binary, "render", "--manifests", "/var/run/secrets"},
		{laptop.Binary, "render", "--write-config-to=file"},
		{laptop.Binary, "render", "--config=/var/run/secrets/kubernetes.io/serviceaccount/token"},
		{laptop.Binary, "diff", "--kubeconfig", "file"},
		// Arguments with blanks, which read like others if they are joined.
		{laptop.Binary, "bundle -o -"},
		{laptop.Binary, "bundle", "-o -", "file"},
		{laptop.Binary + " get", "--cleanup"},
		{laptop.Binary, "get", "", "svc"},
		{laptop.Binary, "bundle", "-o", "json\nfile"},
	} {
		if out, ran := run(viewer, n.Pod, laptop.Container, command...); ran || !strings.Contains(out.Stderr, refused) {
			t.Errorf("a viewer may run %q: %s", command, out)
		}
	}
	t.Run("other pods and containers", func(t *testing.T) {
		for _, pod := range []string{"etcd-node1", "kube-vmap-node1-x", "kube-vmap-shadow-node1"} {
			clustertest.Must(t, c.CreateProxyPod(clustertest.Context(t), n.Name, pod))
			defer func() { clustertest.Must(t, c.DeleteProxyPod(clustertest.Context(t), pod)) }()
			if out, ran := run(viewer, pod, laptop.Container, laptop.Binary, "get", "svc"); ran || !strings.Contains(out.Stderr, refused) {
				t.Errorf("a viewer may run a program in %s: %s", pod, out)
			}
		}
		if out, ran := run(viewer, n.Pod, "node-setup", laptop.Binary, "get", "svc"); ran || !strings.Contains(out.Stderr, refused) {
			t.Errorf("a viewer may run a program in another container: %s", out)
		}
	})
	t.Run("others", func(t *testing.T) {
		if out, ran := run(stranger, n.Pod, laptop.Container, laptop.Binary, "version"); ran || !strings.Contains(out.Stderr, "forbidden") {
			t.Error(out)
		}
		// Whoever may change the DaemonSet has the verb debug, too: by a wildcard.
		if out, ran := run(c.AdminKubeconfig(), n.Pod, laptop.Container, laptop.Binary, "no-such-command"); !ran {
			t.Error(out)
		}
	})
	t.Run("nothing else", func(t *testing.T) {
		for _, command := range []string{
			"delete pod -n kube-system " + n.Pod, "get secrets -A", "get configmaps -n kube-system", "delete daemonset -n kube-system kube-vmap",
			"attach -n kube-system " + n.Pod, "debug node/" + n.Name + " --image=x", "label node " + n.Name + " a=b",
		} {
			if out := c.KubectlAs(t, viewer, strings.Fields(command)...); out.Code == 0 || !strings.Contains(strings.ToLower(out.Stderr), "forbidden") {
				t.Error(out)
			}
		}
	})
}

// user returns the kubeconfig of a user in a group.
func user(t *testing.T, c *laptop.Cluster, name, group string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	clustertest.Must(t, c.UserKubeconfig(name, group, c.Server, path))
	return path
}
