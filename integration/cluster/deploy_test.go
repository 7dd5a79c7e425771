package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/lab"
)

// kustomizations returns the folders under deploy that can be applied.
func kustomizations(t *testing.T) (dirs []string) {
	t.Helper()
	root := filepath.Join(clustertest.Root(t), "deploy")
	for _, pattern := range []string{"base", "preflight", "shadow", "overlays/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		clustertest.Must(t, err)
		for _, dir := range found {
			if _, err := os.Stat(filepath.Join(dir, "kustomization.yaml")); err != nil {
				t.Errorf("%s is no kustomization: %v", dir, err)
			}
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) < 3 {
		t.Fatalf("only %v under deploy", dirs)
	}
	return dirs
}

// TestAPIServerAcceptsEveryManifest takes over the ownership of fields from other tests,
// which may have applied base on the client's side.
func TestAPIServerAcceptsEveryManifest(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, lab.Options{})
	for _, dir := range kustomizations(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			out, err := c.Kubectl(clustertest.Context(t),
				"apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-k", dir)
			clustertest.Must(t, err)
			if !strings.Contains(out, "daemonset.apps/") {
				t.Errorf("it has no DaemonSet:\n%s", out)
			}
		})
	}
}

// TestAPIServerAcceptsTheChart applies what the Helm chart renders with all values, except
// kinds of the Prometheus operator, which this API server does not have. The namespace is
// another one, because ports of a DaemonSet that another test applied would be merged.
func TestAPIServerAcceptsTheChart(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, lab.Options{})
	text, err := os.ReadFile(filepath.Join(clustertest.Root(t), "deploy", "helm", "testdata", "rendered.yaml"))
	clustertest.Must(t, err)
	manifests := slices.DeleteFunc(strings.SplitAfter(string(text), "\n---\n"), func(manifest string) bool {
		return strings.Contains(manifest, "apiVersion: monitoring.coreos.com/")
	})
	file := filepath.Join(t.TempDir(), "chart.yaml")
	chart := strings.ReplaceAll(strings.Join(manifests, ""), "namespace: kube-system", "namespace: "+c.Namespace(t).Name)
	clustertest.Must(t, os.WriteFile(file, []byte(chart), 0o600))
	out, err := c.Kubectl(clustertest.Context(t),
		"apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", file)
	clustertest.Must(t, err)
	if count := strings.Count(out, "(server dry run)\n"); count != len(manifests) {
		t.Errorf("the API server accepted %d of %d objects:\n%s", count, len(manifests), out)
	}
}

// TestDaemonSetPodsAreAdmitted creates a Pod from the template, because no controller does
// so here.
func TestDaemonSetPodsAreAdmitted(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, lab.Options{})
	ctx := clustertest.Context(t)
	c.Deploy(t)
	set, err := c.Client.AppsV1().DaemonSets("kube-system").Get(ctx, "kube-vmap", metav1.GetOptions{})
	clustertest.Must(t, err)
	template := set.Spec.Template
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.GenerateName = "kube-vmap-"
	pod, err = c.Client.CoreV1().Pods("kube-system").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	clustertest.Must(t, err)
	if pod.Spec.Priority == nil || *pod.Spec.Priority < 2000001000 {
		t.Errorf("the Pod's priority is %v", pod.Spec.Priority)
	}
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		config, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		clustertest.Must(t, err)
		for _, file := range []string{"config.conf", "kubeconfig.conf"} {
			if config.Data[file] == "" {
				t.Errorf("ConfigMap %s has no %s", config.Name, file)
			}
		}
		return
	}
	t.Error("the Pod has no ConfigMap")
}
