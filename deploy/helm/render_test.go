package helm

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	loader3 "helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	engine3 "helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// render returns the manifests of the chart with some values, in the order of their
// templates.
func render(t *testing.T, values string) string {
	t.Helper()
	text, err := tryRender(t, values)
	must(t, err)
	return text
}

func tryRender(t *testing.T, values string) (string, error) {
	t.Helper()
	return tryRenderIn(t, "kube-system", values)
}

func tryRenderIn(t *testing.T, namespace, values string) (string, error) {
	t.Helper()
	files, err := templates(t, namespace, values)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if manifest := strings.TrimSpace(files[name]); path.Ext(name) == ".yaml" && manifest != "" {
			text.WriteString("---\n" + strings.TrimSpace(strings.TrimPrefix(manifest, "---")) + "\n")
		}
	}
	return text.String(), nil
}

// notes returns what Helm prints after the installation.
func notes(t *testing.T, values string) string {
	t.Helper()
	files, err := templates(t, "kube-system", values)
	must(t, err)
	return files["kube-vmap/templates/NOTES.txt"]
}

// templates renders each file of the chart, with Helm 4 and with Helm 3, which must agree.
func templates(t *testing.T, namespace, values string) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(".")
	must(t, err)
	all, err := util.ToRenderValues(chart, parsed(t, values),
		common.ReleaseOptions{Name: "kube-vmap", Namespace: namespace, Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	var files map[string]string
	if err == nil {
		files, err = engine.Render(chart, all)
	}
	if files3, err3 := templates3(t, namespace, values); (err == nil) != (err3 == nil) || err == nil && !maps.Equal(files, files3) {
		t.Errorf("Helm 4: %v, %q\nHelm 3: %v, %q", err, files, err3, files3)
	}
	return files, err
}

func templates3(t *testing.T, namespace, values string) (map[string]string, error) {
	t.Helper()
	chart, err := loader3.Load(".")
	must(t, err)
	all, err := chartutil.ToRenderValues(chart, parsed(t, values),
		chartutil.ReleaseOptions{Name: "kube-vmap", Namespace: namespace, Revision: 1, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine3.Render(chart, all)
}

func parsed(t *testing.T, values string) (set map[string]any) {
	t.Helper()
	must(t, yaml.Unmarshal([]byte(values), &set))
	return set
}

// kustomize returns the objects of a folder in deploy/, with the API server's address.
func kustomize(t *testing.T, folder string) map[string]map[string]any {
	t.Helper()
	files := filesys.MakeFsInMemory()
	for _, dir := range []string{"base", "site", "overlays/beside-kube-proxy", "overlays/instead-of-kube-proxy", "monitoring", "preflight", "kubectl", "readiness", "scaler"} {
		for _, file := range glob(t, filepath.Join("..", dir, "*")) {
			if info, err := os.Stat(file); err != nil || info.IsDir() {
				continue
			}
			text := strings.ReplaceAll(string(read(t, file)), "https://api-server-address-is-not-set.invalid:6443", server)
			must(t, files.WriteFile(path.Join("/", dir, filepath.Base(file)), []byte(text)))
		}
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, path.Join("/", folder))
	must(t, err)
	text, err := made.AsYaml()
	must(t, err)
	return objects(t, string(text))
}

// objects returns manifests by kind and name.
func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for manifest := range strings.SplitSeq("\n"+text, "\n---\n") {
		var object map[string]any
		must(t, yaml.Unmarshal([]byte(manifest), &object))
		if object == nil {
			continue
		}
		name := object["kind"].(string) + " " + object["metadata"].(map[string]any)["name"].(string)
		if all[name] != nil {
			t.Errorf("%s occurs twice", name)
		}
		all[name] = object
	}
	return all
}

func compare(t *testing.T, what string, got, want map[string]map[string]any) {
	t.Helper()
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Errorf("%s: the chart has %q, kustomize %q", what, g, w)
	}
	for name, object := range got {
		if !reflect.DeepEqual(object, want[name]) {
			t.Errorf("%s: %s differs from kustomize's:\n%v\n%v", what, name, object, want[name])
		}
	}
}

func defaults(t *testing.T) (values map[string]any) {
	t.Helper()
	must(t, yaml.Unmarshal(read(t, "values.yaml"), &values))
	return values
}

// keys returns the paths of values, sorted. A map whose keys are for users to choose is one
// value: if the default has no keys, or the keys of a Kubernetes type.
func keys(values map[string]any, prefix string) (all []string) {
	for key, value := range values {
		inner, ok := value.(map[string]any)
		if !ok || len(inner) == 0 || slices.Contains([]string{"resources", "config", "labels", "nodeSelector", "affinity", "updateStrategy", "annotations", "podAnnotations", "podLabels"}, key) {
			all = append(all, prefix+key)
			continue
		}
		all = append(all, keys(inner, prefix+key+".")...)
	}
	slices.Sort(all)
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return text
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	must(t, err)
	return files
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
