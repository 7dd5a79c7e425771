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
			delete(got, name) // those of kube-vmap itself
		}
	}
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
	for _, m := range lint.RunAll(".", map[string]any{"apiServer": server}, "kube-system").Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}
