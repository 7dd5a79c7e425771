package plugin_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/eventually"
)

// readOnly are commands that a viewer may run.
var readOnly = []string{
	"status -o json --health", "status -o json --tally", "status -o json", "status -o json --namespace shop --name web --brief", "get svc -A",
	"get endpoints -n shop web -o wide",
	"get fe -A --field-selector spec.verdict!=Balance --no-headers", "get svc --kernel -o=yaml",
	"explain --from 10.244.1.7 --to 10.96.0.10:53/udp -o json", "explain --from fd00::7 --to [fd00::a]:53/udp",
	"problems -o json",
	"diff", "bundle -o -", "render", "version", "get --help",
}

// refused are commands that a viewer may not run.
var refused = [][]string{
	{plugin.Binary, "cleanup"},
	{plugin.Binary, "--cleanup"},
	{plugin.Binary, "get", "--cleanup"},
	{plugin.Binary},
	{"sh"},
	{"/bin/sh", "-c", "/kube-vmap get"},
	{"kube-vmap", "get", "svc"},
	{plugin.Binary, "getsvc"},
	{plugin.Binary, "preflight"},
	{plugin.Binary, "explain", "--from", "10.0.0.1", "--to", "10.0.0.2:80", "--probe"},
	{plugin.Binary, "bundle"},
	{plugin.Binary, "bundle", "-o", "file"},
	{plugin.Binary, "bundle", "-o", "-", "file"},
	{plugin.Binary, "bundle", "-ofile"},
	{plugin.Binary, "bundle", "--output=/dev/shm/file"},
	{plugin.Binary, "bundle", "-o", "-", "-o", "file"},
	{plugin.Binary, "get", "svc", "--status-socket", "/run/containerd/containerd.sock"},
	{plugin.Binary, "render", "--manifests", "/var/run/secrets"},
	{plugin.Binary, "render", "--write-config-to=file"},
	{plugin.Binary, "render", "--config=/var/run/secrets/kubernetes.io/serviceaccount/token"},
	{plugin.Binary, "diff", "--kubeconfig", "file"},
	// Arguments with blanks, which read like others if they are joined.
	{plugin.Binary, "bundle -o -"},
	{plugin.Binary, "bundle", "-o -", "file"},
	{plugin.Binary + " get", "--cleanup"},
	{plugin.Binary, "get", "", "svc"},
	{plugin.Binary, "bundle", "-o", "json\nfile"},
}

// refusal is in the message of the policy.
const refusal = "the role kube-vmap-viewer permits"

// Flags of kubectl for a member of the group of deploy/kubectl, and for someone else.
var (
	viewer   = []string{"--as=viewer", "--as-group=kube-vmap-viewers", "--as-group=system:authenticated"}
	stranger = []string{"--as=stranger", "--as-group=system:authenticated"}
)

// testPermissions is what members of the group of deploy/kubectl may run, and others.
func testPermissions(t *testing.T, c *plugin.Cluster) {
	n, as := c.Nodes[0], viewerClient(t, c)
	eventually.Succeeds(t, "the policy is in force", func() error {
		if err := admitted(t, as, n.Pod, plugin.Container, plugin.Binary, "no-such-command"); err == nil || !strings.Contains(err.Error(), refusal) {
			return fmt.Errorf("it permits everything: %w", err)
		}
		return nil
	})
	for _, command := range readOnly {
		if err := admitted(t, as, n.Pod, plugin.Container, append([]string{plugin.Binary}, strings.Fields(command)...)...); err != nil {
			t.Errorf("a viewer may not run %s: %v", command, err)
		}
	}
	for _, command := range refused {
		checkRefused(t, admitted(t, as, n.Pod, plugin.Container, command...), command)
	}
	for _, pod := range []string{"etcd-node1", "kube-vmap-node1-x", "kube-vmap-preflight-node1"} {
		c.CreateProxyPod(t, n.Name, pod)
		checkRefused(t, admitted(t, as, pod, plugin.Container, plugin.Binary, "version"), pod)
		clustertest.Must(t, c.Client.CoreV1().Pods(plugin.Namespace).Delete(t.Context(), pod, *metav1.NewDeleteOptions(0)))
	}
	checkRefused(t, admitted(t, as, n.Pod, "node-setup", plugin.Binary, "version"), "another container")
	// Whoever may change the DaemonSet has the verb debug, too: by a wildcard.
	if err := admitted(t, c.Client, n.Pod, plugin.Container, plugin.Binary, "no-such-command"); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	t.Run("kubectl", func(t *testing.T) { testViewer(t, c) })
}

// testViewer uses kubectl with the permissions of viewers, and without any.
func testViewer(t *testing.T, c *plugin.Cluster) {
	n := c.Nodes[0]
	for command, want := range map[string]string{
		"explain --from node/" + n.Name + " --to svc/default/kubernetes:https": "ClusterIP of default/kubernetes:https",
		"version":               "on 3 nodes",
		"status -o wide":        "of-the-tests   True    0     ",
		"problems -A":           "",
		"get fe -A --all-nodes": c.Nodes[2].Name,
		"get endpoints -n default kubernetes --node " + n.Name + " -o wide": "6443",
		"diff": "0 of 3 nodes differ",
		"bundle -o " + filepath.Join(t.TempDir(), "all.tgz"): "all.tgz",
	} {
		out := kubectlAs(t, c, viewer, append([]string{"vmap"}, strings.Fields(command)...))
		if text := out.Stdout + out.Stderr; !strings.Contains(text, want) || strings.Contains(text, "no permission") {
			t.Errorf("a viewer cannot use kubectl vmap: %s", out)
		}
	}
	exec := []string{"exec", "-n", plugin.Namespace, n.Pod, "-c", plugin.Container, "--", plugin.Binary}
	if out := kubectlAs(t, c, viewer, append(exec, "cleanup")); out.Code == 0 || !strings.Contains(out.Stderr, refusal) {
		t.Errorf("a viewer may clean up: %s", out)
	}
	if out := kubectlAs(t, c, stranger, append(exec, "version")); out.Code == 0 || !strings.Contains(out.Stderr, "forbidden") {
		t.Errorf("a stranger may run kube-vmap: %s", out)
	}
	for _, command := range []string{
		"delete pod -n kube-system " + n.Pod, "get secrets -A", "delete daemonset -n kube-system kube-vmap",
		"attach -n kube-system " + n.Pod, "debug node/" + n.Name + " --image=x", "label node " + n.Name + " a=b",
	} {
		if out := kubectlAs(t, c, viewer, strings.Fields(command)); out.Code == 0 || !strings.Contains(strings.ToLower(out.Stderr), "forbidden") {
			t.Errorf("a viewer may do more: %s", out)
		}
	}
}

// admitted returns the error of the API server for a command in a container, nil if it
// would be executed. It is not: that takes a connection of another protocol.
func admitted(t *testing.T, as kubernetes.Interface, pod, container string, command ...string) error {
	t.Helper()
	request := as.CoreV1().RESTClient().Post().Resource("pods").Namespace(plugin.Namespace).Name(pod).SubResource("exec")
	request.VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	err := request.Do(clustertest.Context(t)).Error()
	if apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "Upgrade request required") {
		return nil
	}
	return err
}

func checkRefused(t *testing.T, err error, what any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("a viewer may run %q: %v", what, err)
	}
}

// kubectlAs runs kubectl as another user, whose flags come after the name of the command.
func kubectlAs(t *testing.T, c *plugin.Cluster, user, args []string) plugin.Output {
	t.Helper()
	return c.Kubectl(t, slices.Concat(args[:1], user, args[1:])...)
}

func viewerClient(t *testing.T, c *plugin.Cluster) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.AdminKubeconfig())
	clustertest.Must(t, err)
	config.Dial, config.QPS = c.Lab.Outside.DialContext, -1
	config.Impersonate = rest.ImpersonationConfig{UserName: "viewer", Groups: []string{"kube-vmap-viewers", "system:authenticated"}}
	out, err := kubernetes.NewForConfig(config)
	clustertest.Must(t, err)
	return out
}
