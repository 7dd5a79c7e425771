// Package helm has the Helm chart of kube-vmap, and no code except tests. The chart's
// templates read the manifests of kustomize, which files/ links to.
package helm

import (
	"flag"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	lint3 "helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite testdata/rendered.yaml")

const server = "https://10.0.0.1:6443"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // Helm logs every link
	os.Exit(m.Run())
}

func TestChartHasTheObjectsOfKustomize(t *testing.T) {
	for _, nodes := range []string{"beside-kube-proxy", "instead-of-kube-proxy"} {
		want := kustomize(t, "overlays/"+nodes)
		got := objects(t, render(t, "apiServer: "+server+"\nnodes: "+nodes))
		removeReleaseLabels(t, got)
		for name, object := range got {
			if strings.HasPrefix(name, "ConfigMap ") {
				metadata := object["metadata"].(map[string]any)
				if !reflect.DeepEqual(metadata["annotations"], map[string]any{"helm.sh/resource-policy": "keep"}) {
					t.Errorf("%s: annotations %v, want that Helm keeps it", name, metadata["annotations"])
				}
				delete(metadata, "annotations")
			}
		}
		compare(t, nodes, got, want)
	}
}

// TestChartHasTheOtherFoldersOfKustomize: without the ConfigMaps of site, as Helm does not remove
// kube-vmap's with the rest.
func TestChartHasTheOtherFoldersOfKustomize(t *testing.T) {
	base := objects(t, render(t, "apiServer: "+server))
	for folder, value := range map[string]string{"preflight": "preflight", "kubectl": "viewers", "readiness": "readiness", "scaler": "scaler"} {
		want := kustomize(t, folder)
		got := objects(t, render(t, "apiServer: "+server+"\n"+value+": {enabled: true}"))
		for name, object := range got {
			if _, ok := base[name]; ok {
				delete(got, name)
			} else if object["kind"] == "DaemonSet" {
				shareConfig(t, object)
			}
		}
		for name, object := range want {
			if object["kind"] == "ConfigMap" && object["data"] != nil {
				delete(want, name)
			} else if object["kind"] == "DaemonSet" {
				shareConfig(t, object)
			}
		}
		removeReleaseLabels(t, got)
		compare(t, folder, got, want)
	}
}

// shareConfig removes the hash from the name of a pod's ConfigMap.
func shareConfig(t *testing.T, set map[string]any) {
	t.Helper()
	pod := set["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	volumes, _ := pod["volumes"].([]any)
	for _, v := range volumes {
		if m, ok := v.(map[string]any)["configMap"].(map[string]any); ok {
			if name := m["name"].(string); !strings.HasPrefix(name, "kube-vmap-") {
				t.Errorf("ConfigMap %s", name)
			}
			m["name"] = "kube-vmap"
		}
	}
}

// removeReleaseLabels removes the labels that only the chart sets, and checks them.
func removeReleaseLabels(t *testing.T, all map[string]map[string]any) {
	t.Helper()
	for name, object := range all {
		labels := object["metadata"].(map[string]any)["labels"].(map[string]any)
		component, _ := labels["app.kubernetes.io/component"].(string)
		for label, want := range map[string]string{
			"app.kubernetes.io/instance": "kube-vmap", "app.kubernetes.io/version": "latest", "app.kubernetes.io/managed-by": "Helm",
			"helm.sh/chart": "kube-vmap-0.0.0", "app.kubernetes.io/component": component,
		} {
			if labels[label] != want || want == "" {
				t.Errorf("%s: label %s is %v, want %q", name, label, labels[label], want)
			}
			delete(labels, label)
		}
	}
}

// TestNamesAndNamespace checks what refers to the names of objects, in another namespace and with
// another name.
func TestNamesAndNamespace(t *testing.T) {
	const namespace, name = "network", "proxy"
	text, err := tryRenderIn(t, namespace, "apiServer: "+server+`
nameOverride: `+name+`
otherProxies: [{labels: {app: other}}, {labels: {app: third}, namespaces: [third]}]
preflight: {enabled: true}
viewers: {enabled: true}
readiness: {enabled: true}
scaler: {enabled: true, kedaNamespace: autoscaling}
config: {metricsBindAddress: "0.0.0.0:10249"}
monitoring: {serviceMonitor: {enabled: true}}`)
	must(t, err)
	for id, object := range objects(t, text) {
		metadata := object["metadata"].(map[string]any)
		if got := metadata["name"].(string); got != name && !strings.HasPrefix(got, name+"-") && got != "kube-vmap-scaler" {
			t.Errorf("%s: another name than %s", id, name)
		}
		if got, ok := metadata["namespace"]; ok && got != namespace {
			t.Errorf("%s is in namespace %s", id, got)
		}
	}
	for _, want := range []string{
		"namespaces:\n            - kube-system\n", "namespaces:\n            - third\n", "serviceaccount:network:proxy-readiness", "^proxy-[a-z0-9]{5}$",
		`name("proxy")`, "- proxy\n", "matchNames:\n    - network\n", "policyName: proxy-viewer",
		"--namespace=network\n", "--reporter=system:serviceaccount:network:proxy\n", "kubernetes.io/metadata.name: autoscaling\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("nowhere %q", want)
		}
	}
}

// TestSecondProxy compares the objects of a proxy with a name with the node's own.
func TestSecondProxy(t *testing.T) {
	const all = "apiServer: " + server + "\npreflight: {enabled: true}\nviewers: {enabled: true}\nreadiness: {enabled: true}\n"
	const values = all + "serviceProxyName: edge\nconfig: {healthzBindAddress: 0.0.0.0:20256, metricsBindAddress: 127.0.0.1:20249}"
	text := render(t, values)
	own, named := objects(t, render(t, all)), objects(t, text)
	for name := range named {
		if own[name] != nil || !strings.Contains(name, "edge") || len(named) != len(own) {
			t.Errorf("%s is also the node's own, or the one has %d objects, the other %d", name, len(own), len(named))
		}
	}
	for _, line := range strings.Split(text, "\n") {
		_, label, isLabel := strings.Cut(line, "app.kubernetes.io/name: ")
		if isLabel && !strings.HasSuffix(label, ".edge") || strings.Contains(line, "kube-vmap.io/proxy:") || strings.Contains(line, "k8s-app") {
			t.Errorf("the label of the node's own proxy: %s", line)
		}
	}
	containers, flags := strings.Count(text, "image: localhost/kube-vmap:"), strings.Count(text, "- --service-proxy-name=edge\n")
	if containers != flags || !strings.Contains(text, "containerPort: 20256\n") || !strings.Contains(text, "key: kube-vmap.io/proxy.edge\n") {
		t.Errorf("%d containers have %d flags, or the port or node label of the node's own:\n%s", containers, flags, text)
	}
	if is := notes(t, values); strings.Contains(is, "patch") || !strings.Contains(is, "kube-vmap.io/proxy.edge=disabled") {
		t.Errorf("the notes are\n%s", is)
	}
}

func TestNotesPatchKubeProxyAsKustomizeSays(t *testing.T) {
	for _, nodes := range []string{"beside-kube-proxy", "instead-of-kube-proxy"} {
		_, patch, _ := strings.Cut(notes(t, "apiServer: "+server+"\nnodes: "+nodes), "--patch '")
		patch, _, _ = strings.Cut(patch, "'\n")
		var got, want map[string]any
		must(t, yaml.Unmarshal([]byte(patch), &got))
		must(t, yaml.Unmarshal(read(t, "../overlays/"+nodes+"/kube-proxy.yaml"), &want))
		if !reflect.DeepEqual(got, want) || len(want) == 0 {
			t.Errorf("%s: the notes have the patch %s, want %v", nodes, patch, want)
		}
	}
}

func TestChartHasTheMonitoringOfKustomize(t *testing.T) {
	got := objects(t, render(t, `
apiServer: `+server+`
config: {metricsBindAddress: "0.0.0.0:10249"}
monitoring:
  serviceMonitor: {enabled: true}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}`))
	want := kustomize(t, "monitoring")
	for name := range got {
		if _, ok := want[name]; !ok {
			delete(got, name) // of kube-vmap itself
		}
	}
	removeReleaseLabels(t, got)
	compare(t, "monitoring", got, want)
}

// TestRenderedWithAllValues keeps what the chart makes of values that are no defaults.
// Tests of other modules check it against the code and a real API server.
func TestRenderedWithAllValues(t *testing.T) {
	values := string(read(t, "testdata/values.yaml"))
	var set map[string]any
	must(t, yaml.Unmarshal([]byte(values), &set))
	for _, name := range keys(defaults(t), "") {
		if !slices.Contains(keys(set, ""), name) {
			t.Errorf("testdata/values.yaml does not set %s", name)
		}
	}
	got := render(t, values)
	const golden = "testdata/rendered.yaml"
	if *update {
		must(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	if got != string(read(t, golden)) {
		t.Errorf("%s differs from what the chart renders; run go test -update and read the diff", golden)
	}
}

func TestLintIsClean(t *testing.T) {
	set := map[string]any{"apiServer": server}
	for _, m := range lint.RunAll(".", set, "kube-system").Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
	for _, m := range lint3.All(".", set, "kube-system", true).Messages {
		if m.Severity > support.InfoSev {
			t.Error("Helm 3: ", m)
		}
	}
}
