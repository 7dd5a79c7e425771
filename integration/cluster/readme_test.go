package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
)

// notRun are parts of kubectl commands of deploy/README.md that need a kubelet, or the kinds of the
// Prometheus operator.
var notRun = []string{"logs --prefix", "apply -k deploy/monitoring"}

// walk are commands of deploy/README.md in the order in which an operator runs them,
// each by a part that no other command has, and which DaemonSets want a pod on the node
// that is moved and on another one afterwards.
var walk = []struct{ command, here, there string }{
	{"deploy/configure", "kube-proxy", "kube-proxy"},
	{"apply -k deploy/preflight", "kube-proxy kube-vmap-preflight", "kube-proxy kube-vmap-preflight"},
	{"-o wide -l app.kubernetes.io/name=kube-vmap-preflight", "kube-proxy kube-vmap-preflight", "kube-proxy kube-vmap-preflight"},
	{"delete -k deploy/preflight", "kube-proxy", "kube-proxy"},
	{"get pods -A --show-labels | grep kube-proxy", "kube-proxy", "kube-proxy"},
	{"apply -k deploy/overlays/beside-kube-proxy", "kube-proxy", "kube-proxy"},
	{"--patch-file deploy/overlays/beside-kube-proxy", "kube-proxy", "kube-proxy"},
	{"node NODE kube-vmap.io/proxy=enabled", "kube-vmap", "kube-proxy"},
	{"-l k8s-app=kube-proxy --field-selector", "kube-vmap", "kube-proxy"},

	{"node NODE kube-vmap.io/proxy=disabled", "kube-proxy", "kube-proxy"},
	{"node NODE kube-vmap.io/proxy=cleanup", "kube-proxy kube-vmap-cleanup", "kube-proxy"},
	{"-l app.kubernetes.io/name=kube-vmap-cleanup", "kube-proxy kube-vmap-cleanup", "kube-proxy"},
	{"node NODE kube-vmap.io/proxy-", "kube-proxy", "kube-proxy"},
	{"node NODE kube-vmap.io/proxy=enabled", "kube-vmap", "kube-proxy"},

	{"apply -k deploy/overlays/instead-of-kube-proxy", "kube-vmap", "kube-proxy kube-vmap"},
	{"--patch-file deploy/overlays/instead-of-kube-proxy", "kube-vmap", "kube-vmap"},
	{"-o wide -l app.kubernetes.io/name=kube-vmap", "kube-vmap", "kube-vmap"},
	{"apply -k deploy/scaler", "kube-vmap", "kube-vmap"},
	{"app.kubernetes.io/name=kube-vmap-scaler", "kube-vmap", "kube-vmap"},
	{"node NODE kube-vmap.io/proxy=disabled", "kube-proxy", "kube-vmap"},
	{"node NODE kube-vmap.io/proxy=cleanup", "kube-proxy kube-vmap-cleanup", "kube-vmap"},
	{"node NODE kube-vmap.io/proxy=enabled", "kube-vmap", "kube-vmap"},
	{"rollout undo daemonset/kube-vmap", "kube-vmap", ""},
	{"apply -k deploy/overlays/instead-of-kube-proxy", "kube-vmap", "kube-vmap"},
	{"pod-security.kubernetes.io/enforce=privileged", "kube-vmap", "kube-vmap"},

	{"nodes --all kube-vmap.io/proxy=disabled", "kube-proxy", "kube-proxy"},
	{"nodes --all kube-vmap.io/proxy=cleanup", "kube-proxy kube-vmap-cleanup", "kube-proxy kube-vmap-cleanup"},
	{"rollout status daemonset/kube-vmap-cleanup", "kube-proxy kube-vmap-cleanup", "kube-proxy kube-vmap-cleanup"},
	{"delete -k deploy/overlays/instead-of-kube-proxy", "kube-proxy", "kube-proxy"},
	{`"path": "/spec/template/spec/affinity"`, "kube-proxy", "kube-proxy"},
	{"nodes --all kube-vmap.io/proxy-", "kube-proxy", "kube-proxy"},
}

// TestDeployReadmeCommandsWork runs them with the real kubectl, API server and
// DaemonSet controller, there, back, and forward again.
func TestDeployReadmeCommandsWork(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.kubeProxy(t)
	commands := readmeCommands(t)
	ran := map[string]bool{}
	for _, step := range walk {
		command := only(t, commands, step.command)
		ran[command] = true
		if strings.Contains(command, "pod-security") {
			o.refusedByPodSecurity(t)
		}
		o.run(t, command)
		o.placed(t, command, step.here, step.there)
		if strings.Contains(command, "apply -k deploy/scaler") {
			o.keepsCertificate(t, command)
		}
	}
	for _, command := range commands {
		if !ran[command] && !slices.ContainsFunc(notRun, func(part string) bool { return strings.Contains(command, part) }) {
			t.Errorf("the test does not run the command %q", command)
		}
	}
}

// refusedByPodSecurity asks what the level baseline forbids of the Pods.
func (o *operator) refusedByPodSecurity(t *testing.T) {
	t.Helper()
	o.run(t, "kubectl label --overwrite node NODE kube-vmap.io/proxy=cleanup")
	o.placed(t, "kube-vmap.io/proxy=cleanup", "kube-proxy kube-vmap-cleanup", "kube-vmap")
	warnings := o.run(t, "kubectl label --dry-run=server namespace kube-system pod-security.kubernetes.io/enforce=baseline")
	for _, want := range []string{
		`kube-vmap-\w{5}: non-default capabilities, host namespaces, hostPort, privileged`,
		`kube-vmap-cleanup-\w{5}: non-default capabilities, host namespaces`,
	} {
		if !regexp.MustCompile(`(?m)` + want + `$`).MatchString(warnings) {
			t.Errorf("no warning %s in\n%s", want, warnings)
		}
	}
	o.run(t, "kubectl label --overwrite node NODE kube-vmap.io/proxy=enabled")
}

// keepsCertificate writes what kube-vmap-scaler writes, and checks that another apply keeps it.
func (o *operator) keepsCertificate(t *testing.T, apply string) {
	t.Helper()
	o.run(t, `kubectl -n kube-system patch secret kube-vmap-scaler -p '{"data": {"tls.key": "a2V5"}}'`)
	o.run(t, `kubectl -n kube-system patch configmap kube-vmap-scaler -p '{"data": {"ca.crt": "certificate"}}'`)
	o.run(t, apply)
	got := o.run(t, "kubectl -n kube-system get secret/kube-vmap-scaler configmap/kube-vmap-scaler -o jsonpath='{.items[*].data}'")
	if want := `{"tls.key":"a2V5"} {"ca.crt":"certificate"}`; got != want {
		t.Errorf("after another %q, they hold %s, want %s", apply, got, want)
	}
}

// readmeCommands returns the lines with kubectl and the programs of deploy of all code blocks, each once, with what
// continues them and without comments.
func readmeCommands(t *testing.T) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(clustertest.Root(t), "deploy", "README.md"))
	clustertest.Must(t, err)
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
		command, _, _ := strings.Cut(strings.TrimSpace(line), "    #")
		if strings.HasPrefix(line, "    ") && (strings.HasPrefix(command, "kubectl ") || strings.HasPrefix(command, "deploy/")) && !slices.Contains(commands, command) {
			commands = append(commands, command)
		}
	}
	return commands
}

func only(t *testing.T, commands []string, part string) string {
	t.Helper()
	i := slices.IndexFunc(commands, func(c string) bool { return strings.HasSuffix(c, part) })
	if i < 0 {
		i = slices.IndexFunc(commands, func(c string) bool { return strings.Contains(c, part) })
	}
	if i < 0 {
		t.Fatalf("deploy/README.md has no command with %q, but\n%s", part, strings.Join(commands, "\n"))
	}
	return commands[i]
}

// operator is a person with the repository's folder deploy and a cluster of two nodes.
type operator struct {
	*clustertest.Cluster
	dir string
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	l := labtest.New(t, lab.Options{RemotePods: 1})
	o := &operator{dir: t.TempDir(), Cluster: clustertest.AloneIn(t, l, plane.Options{Host: l.Outside, ControllerManagerFlags: []string{
		"--controllers=daemonset-controller,serviceaccount-controller,garbage-collector-controller",
	}})}
	clustertest.Must(t, os.CopyFS(filepath.Join(o.dir, "deploy"), os.DirFS(filepath.Join(clustertest.Root(t), "deploy"))))
	o.run(t, "kubectl label nodes --all kubernetes.io/os=linux")
	ctx, stop := context.WithCancel(context.Background())
	var kubelets errgroup.Group
	kubelets.Go(func() error { return o.runPods(ctx) })
	t.Cleanup(func() { stop(); clustertest.Must(t, kubelets.Wait()) })
	return o
}

// run runs a command in a shell, with the moved node for NODE, and returns its output.
func (o *operator) run(t *testing.T, command string) string {
	t.Helper()
	kubectl, err := plane.Program("kubectl")
	clustertest.Must(t, err)
	line := strings.ReplaceAll(command, "NODE", o.NodeName(o.Lab.Node))
	cmd := o.Lab.Outside.Command(t.Context(), "bash", "-o", "pipefail", "-c", line)
	cmd.Dir = o.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+o.AdminKubeconfig(), "HOME="+o.dir, "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// kubeadmKubeProxy is what matters here of kubeadm's DaemonSet.
const kubeadmKubeProxy = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-proxy, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: kube-proxy}}
  template:
    metadata: {labels: {k8s-app: kube-proxy}}
    spec:
      containers: [{name: kube-proxy, image: kube-proxy}]
      tolerations: [{operator: Exists}]
`

// kubeProxy creates kubeadm's objects of kube-proxy.
func (o *operator) kubeProxy(t *testing.T) {
	t.Helper()
	o.run(t, "kubectl -n kube-system create configmap kube-proxy --from-file=deploy/site/config.conf --from-file=deploy/site/kubeconfig.conf")
	o.run(t, "kubectl create -f - <<YAML"+kubeadmKubeProxy+"YAML")
	o.placed(t, "the start", "kube-proxy", "kube-proxy")
}

// placed waits until these DaemonSets want pods on the moved node and on the other one; an
// empty list matches any.
func (o *operator) placed(t *testing.T, after, here, there string) {
	t.Helper()
	ctx := clustertest.Context(t)
	err := eventually.Try(ctx, func() error {
		if err := o.settled(ctx); err != nil {
			return err
		}
		for node, want := range map[*lab.Node]string{o.Lab.Node: here, o.Lab.Remote: there} {
			got, err := o.setsOn(ctx, o.NodeName(node))
			if err != nil {
				return err
			}
			if want != "" && got != want {
				return fmt.Errorf("after %s, %s has pods of %q, want %q", after, node, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, o.run(t, "kubectl -n kube-system get daemonsets,pods -o wide; kubectl -n kube-system get events"))
	}
}

// settled returns an error until the controller has created and removed the Pods of all
// DaemonSets.
func (o *operator) settled(ctx context.Context) error {
	sets, err := o.Client.AppsV1().DaemonSets("kube-system").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, set := range sets.Items {
		want := set.Status.DesiredNumberScheduled
		if s := set.Status; s.ObservedGeneration != set.Generation || s.CurrentNumberScheduled != want || s.UpdatedNumberScheduled != want || s.NumberMisscheduled > 0 || s.NumberReady != want {
			return fmt.Errorf("%s is not done: %+v", set.Name, s)
		}
	}
	return nil
}

// runPods does what the scheduler and the kubelets would do with the Pods, but for
// running them, until ctx ends: they get the node that their affinity names, are ready,
// and go.
func (o *operator) runPods(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		pods, err := o.Client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{})
		for i := 0; err == nil && i < len(pods.Items); i++ {
			// It may have changed in between, and is read again.
			if err = o.runPod(ctx, &pods.Items[i]); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				err = nil
			}
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// runPod takes the next step of a Pod's life.
func (o *operator) runPod(ctx context.Context, p *corev1.Pod) error {
	pods := o.Client.CoreV1().Pods(p.Namespace)
	switch {
	case p.DeletionTimestamp != nil:
		return pods.Delete(ctx, p.Name, *metav1.NewDeleteOptions(0))
	case p.Spec.NodeName == "":
		node := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
		return pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
	case p.Status.Phase != corev1.PodRunning:
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		_, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	}
	return nil
}

// setsOn returns the DaemonSets with a pod on the node, sorted.
func (o *operator) setsOn(ctx context.Context, node string) (string, error) {
	pods, err := o.Client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var sets []string
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Spec.NodeName == node {
			sets = append(sets, p.OwnerReferences[0].Name)
		}
	}
	slices.Sort(sets)
	return strings.Join(slices.Compact(sets), " "), nil
}
