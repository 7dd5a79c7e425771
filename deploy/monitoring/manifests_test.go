package monitoring

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// A monitor has the fields of a ServiceMonitor that are tested.
type monitor struct {
	Metadata struct{ Namespace string }
	Spec     struct {
		JobLabel          string
		Selector          struct{ MatchLabels map[string]string }
		NamespaceSelector struct{ MatchNames []string }
		Endpoints         []struct {
			Port, Path  string
			HonorLabels bool
		}
	}
}

func TestServiceMonitorSelectsPodsAndSetsJob(t *testing.T) {
	var (
		ds      appsv1.DaemonSet
		service corev1.Service
		m       monitor
	)
	for file, into := range map[string]any{"../base/daemonset.yaml": &ds, "service.yaml": &service, "servicemonitor.yaml": &m} {
		must(t, yamlOf(t, file, into))
	}
	if !within(service.Spec.Selector, ds.Spec.Template.Labels) || service.Namespace != ds.Namespace {
		t.Errorf("the Service selects %v in %s; pods have %v in %s", service.Spec.Selector, service.Namespace, ds.Spec.Template.Labels, ds.Namespace)
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the Service has the address %q, so any node could respond", service.Spec.ClusterIP)
	}
	if !within(m.Spec.Selector.MatchLabels, service.Labels) || fmt.Sprint(m.Spec.NamespaceSelector.MatchNames) != "["+service.Namespace+"]" {
		t.Errorf("the monitor selects %v in %v, the Service has %v in %s",
			m.Spec.Selector.MatchLabels, m.Spec.NamespaceSelector.MatchNames, service.Labels, service.Namespace)
	}
	if job := service.Labels[m.Spec.JobLabel]; job != "kube-vmap" {
		t.Errorf("the job is %q; all rules select kube-vmap", job)
	}
	port, e := service.Spec.Ports[0], m.Spec.Endpoints[0]
	if port.Name != e.Port || cmp.Or(port.TargetPort.IntValue(), int(port.Port)) != 10249 || e.Path != "/metrics" {
		t.Errorf("scrapes %s %s of %+v, want /metrics on port 10249", e.Port, e.Path, port)
	}
	if e.HonorLabels {
		t.Error("with honorLabels, metrics could change the labels of their source")
	}
}

// TestNoMetricHasALabelOfItsSource: such a label would be renamed to exported_... by Prometheus. These
// are the labels that it, its operator and common relabeling give to what they scrape.
func TestNoMetricHasALabelOfItsSource(t *testing.T) {
	source := []string{"cluster", "container", "endpoint", "instance", "job", "namespace", "node", "pod", "service"}
	for name, labels := range served(t) {
		for _, label := range labels {
			if slices.Contains(source, label) {
				t.Errorf("%s has the label %s", name, label)
			}
		}
	}
}

func TestPanelsHaveDescriptionsAndTheSelectedSource(t *testing.T) {
	ids := map[int]bool{}
	for _, p := range theBoard(t).Panels {
		if ids[p.ID] {
			t.Errorf("%s has the number of another panel", p.Title)
		}
		ids[p.ID] = true
		if p.Type != "row" && (p.About == "" || len(p.Targets) == 0) {
			t.Errorf("%s has no description or no query", p.Title)
		}
		for _, q := range p.Targets {
			if q.Datasource["uid"] != "${datasource}" {
				t.Errorf("%s uses %v instead of the selected data source", p.Title, q.Datasource)
			}
		}
	}
}

// within reports whether there are labels, and others contains them.
func within(some, all map[string]string) bool {
	for k, v := range some {
		if all[k] != v {
			return false
		}
	}
	return len(some) > 0
}

// yamlOf decodes a manifest, ignoring unknown fields.
func yamlOf(t *testing.T, file string, into any) error {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict(read(t, file))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return json.Unmarshal(text, into)
}
