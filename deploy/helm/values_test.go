package helm

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"sigs.k8s.io/yaml"
)

func TestWrongValuesAreRejected(t *testing.T) {
	for values, want := range map[string]string{
		"":                                  "apiServer is not set: kube-vmap cannot reach the API server",
		"apiServer: 10.0.0.1:6443":          "at '/apiServer': '10.0.0.1:6443' does not match pattern",
		"apiServer: https://10.0.0.1/path":  "at '/apiServer'",
		"apiserver: " + server:              "additional properties 'apiserver' not allowed",
		"nodes: all":                        "at '/nodes': value must be one of 'beside-kube-proxy', 'instead-of-kube-proxy'",
		"config: {clusterCIDR: 10.244.0.0}": "at '/config/clusterCIDR': '10.244.0.0' does not match pattern",
		"config: {mode: ebpf}":              "at '/config/mode': value must be one of 'nftables', 'iptables', 'ipvs'",
		"config: {clientConnection: {kubeconfig: /etc/kubernetes/admin.conf}}": "at '/config/clientConnection/kubeconfig'",
		"config: {oomScoreAdj: -1001}":                                         "at '/config/oomScoreAdj': minimum: got -1,001, want -1,000",
		"probation: 10":                                                        "at '/probation': got number, want string",
		"probation: soon":                                                      "at '/probation': 'soon' does not match pattern",
		"kubeProxyMarker: sometimes":                                           "at '/kubeProxyMarker': value must be one of '', 'auto', 'always', 'never'",
		"apiServer: " + server + "\nserviceProxyName: edge":                    "set config.healthzBindAddress and config.metricsBindAddress to ports of its own",
		"serviceProxyName: Edge":                                               "at '/serviceProxyName': 'Edge' does not match pattern",
		"extraArgs: --v=2":                                                     "at '/extraArgs': got string, want array",
		"extraArgs: [strict-source-ranges]":                                    "at '/extraArgs/0'",
		"image: {name: kube-vmap}":                                             "at '/image': additional properties 'name' not allowed",
		"image: {digest: 'sha256:12'}":                                         "at '/image/digest'",
		"image: {pullPolicy: Sometimes}":                                       "at '/image/pullPolicy'",
		"maxUnavailable: 0":                                                    "at '/maxUnavailable'",
		"nodeSelector: {pool: 1}":                                              "at '/nodeSelector/pool': got number, want string",
		"otherProxies: [{labels: {}}]":                                         "at '/otherProxies/0/labels': minProperties: got 0, want 1",
		"tolerations: {operator: Exists}":                                      "at '/tolerations': got object, want array",
		"podLabels: {team: 1}":                                                 "at '/podLabels/team': got number, want string",
		"nameOverride: Proxy":                                                  "at '/nameOverride': 'Proxy' does not match pattern",
		"affinity: {nodeAffinty: {}}":                                          "at '/affinity': additional properties 'nodeAffinty' not allowed",
		"preflight: {enabled: true, cniConfig: etc}":                           "at '/preflight/cniConfig'",
		"cleanup: {enabled: 'yes'}":                                            "at '/cleanup/enabled': got string, want boolean",
		"scaler: {image: {pullPolicy: Always}}":                                "at '/scaler/image': additional properties 'pullPolicy' not allowed",
		"scaler: {kedaNamespace: ''}":                                          "at '/scaler/kedaNamespace'",
		"monitoring: {enabled: true}":                                          "at '/monitoring': additional properties 'enabled' not allowed",
		"apiServer: " + server + "\nmonitoring: {serviceMonitor: {enabled: true}}": "Set config.metricsBindAddress",
		"apiServer: " + server + "\nconfig: {metricsBindAddress: '[::1]:10249'}\n" +
			"monitoring: {serviceMonitor: {enabled: true}}": "Set config.metricsBindAddress",
	} {
		_, err := tryRender(t, values)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", values, err, want)
		}
	}
}

func TestProbesFollowTheHealthAddress(t *testing.T) {
	containerPort, probedHost := regexp.MustCompile(`containerPort: (\d+)`), regexp.MustCompile(`\bhost: (\S+)`)
	for address, want := range map[string]string{
		"":                "10256",
		"0.0.0.0":         "10256",
		"0.0.0.0:10257":   "10257",
		"[::]:10258":      "10258",
		"127.0.0.1:10256": "10256 at 127.0.0.1",
		"[::1]:10259":     "10259 at ::1",
		"192.0.2.1:10256": "10256",
		"::1":             "10256 at ::1",
		"2001:db8::1:12":  "10256",
	} {
		text := render(t, "apiServer: "+server+"\nconfig: {healthzBindAddress: '"+address+"'}")
		got := containerPort.FindStringSubmatch(text)[1]
		if host := probedHost.FindStringSubmatch(text); host != nil {
			got += " at " + strings.Trim(host[1], `"'`)
		}
		if got != want {
			t.Errorf("healthzBindAddress %q: probes use %s, want %s", address, got, want)
		}
	}
}

// TestValuesOfDistributionsRender renders the values that docs/install has for each
// distribution.
func TestValuesOfDistributionsRender(t *testing.T) {
	pages := glob(t, "../../docs/install/*.md")
	if len(pages) < 10 {
		t.Fatalf("only %q in docs/install", pages)
	}
	for _, page := range pages {
		_, values, found := strings.Cut(string(read(t, page)), "```yaml\n# values.yaml\n")
		if filepath.Base(page) == "README.md" || filepath.Base(page) == "new-nodes.md" {
			continue
		}
		values, _, _ = strings.Cut(values, "```")
		if _, err := tryRender(t, values); err != nil || !found {
			t.Errorf("%s: its values.yaml does not render: %v", page, err)
		}
	}
}

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
