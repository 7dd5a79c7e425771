package helm

import (
	"reflect"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"sigs.k8s.io/yaml"
)

// TestValuesOfGitOpsRender renders the values of an Application of Argo CD, which runs Helm 3, and of
// a HelmRelease of Flux, whose controller has Helm as a library.
func TestValuesOfGitOpsRender(t *testing.T) {
	var application struct {
		Spec struct {
			Source struct {
				Path string
				Helm struct {
					ReleaseName  string
					ValuesObject map[string]any
				}
			}
			Destination struct{ Namespace string }
		}
	}
	must(t, yaml.Unmarshal(read(t, "../gitops/argocd.yaml"), &application))
	source := application.Spec.Source
	if source.Path != "deploy/helm" || source.Helm.ReleaseName != "kube-vmap" {
		t.Errorf("Argo CD: %+v", source)
	}

	var repository sourcev1.OCIRepository
	var release helmv2.HelmRelease
	first, second, _ := strings.Cut(string(read(t, "../gitops/flux.yaml")), "\n---\n")
	must(t, yaml.UnmarshalStrict([]byte(first), &repository))
	must(t, yaml.UnmarshalStrict([]byte(second), &release))
	if ref := release.Spec.ChartRef; ref.Kind != repository.Kind || ref.Name != repository.Name || release.Spec.ReleaseName != "kube-vmap" {
		t.Errorf("Flux: %+v of %s %s", ref, repository.Kind, repository.Name)
	}

	byArgo, err := yaml.Marshal(source.Helm.ValuesObject)
	must(t, err)
	argo, err := tryRenderIn(t, application.Spec.Destination.Namespace, string(byArgo))
	must(t, err)
	flux, err := tryRenderIn(t, release.Spec.TargetNamespace, string(release.Spec.Values.Raw))
	must(t, err)
	// From a release the chart has the tag, which the file of Argo CD has to set.
	flux = strings.ReplaceAll(flux, "registry.example.org/kube-vmap:latest", "registry.example.org/kube-vmap:v0.2.0")
	if !strings.Contains(flux, "server: https://10.0.0.1:6443") || !reflect.DeepEqual(objects(t, argo), objects(t, flux)) {
		t.Errorf("they differ:\n%s\n%s", argo, flux)
	}
}
