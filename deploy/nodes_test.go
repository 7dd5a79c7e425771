package deploy

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// kubeProxyLabels are the labels of kube-proxy's pods in clusters of kubeadm
// (cmd/kubeadm/app/phases/addons/proxy/manifests.go).
var kubeProxyLabels = labels.Set{"k8s-app": "kube-proxy"}

func TestSelectorsMatchOwnPodsOnly(t *testing.T) {
	ds, cleanup := daemonSet(t, "base/daemonset.yaml"), daemonSet(t, "base/cleanup.yaml")
	ours, theirs := labels.Set(ds.Spec.Template.Labels), labels.Set(cleanup.Spec.Template.Labels)
	for name, c := range map[string]struct {
		selector        *metav1.LabelSelector
		takes, takesNot []labels.Set
	}{
		"kube-vmap's":                   {ds.Spec.Selector, []labels.Set{ours}, []labels.Set{kubeProxyLabels, theirs}},
		"cleanup's":                     {cleanup.Spec.Selector, []labels.Set{theirs}, []labels.Set{kubeProxyLabels, ours}},
		"what kube-vmap keeps clear of": {awayFrom(t, ds), []labels.Set{kubeProxyLabels}, []labels.Set{ours, theirs}},
		"what cleanup keeps clear of":   {awayFrom(t, cleanup), []labels.Set{ours}, []labels.Set{kubeProxyLabels, theirs}},
		"the selector for both":         {&metav1.LabelSelector{MatchLabels: kubeProxyLabels}, []labels.Set{kubeProxyLabels, ours}, []labels.Set{theirs}},
	} {
		selector, err := metav1.LabelSelectorAsSelector(c.selector)
		must(t, err)
		for _, pod := range c.takes {
			if !selector.Matches(pod) {
				t.Errorf("selector %s (%s) does not match %v", name, selector, pod)
			}
		}
		for _, pod := range c.takesNot {
			if selector.Matches(pod) {
				t.Errorf("selector %s (%s) matches %v", name, selector, pod)
			}
		}
	}
}

// TestPodsTolerateAllTaints checks that kube-vmap runs wherever kube-proxy would.
func TestPodsTolerateAllTaints(t *testing.T) {
	for _, file := range []string{
		"base/daemonset.yaml", "base/cleanup.yaml", "preflight/daemonset.yaml", "readiness/daemonset.yaml",
	} {
		got := daemonSet(t, file).Spec.Template.Spec.Tolerations
		if want := (corev1.Toleration{Operator: corev1.TolerationOpExists}); len(got) != 1 || got[0] != want {
			t.Errorf("%s tolerates %+v, want %+v", file, got, want)
		}
	}
}

// awayFrom returns the pods that a DaemonSet's pods do not share a node with.
func awayFrom(t *testing.T, ds appsv1.DaemonSet) *metav1.LabelSelector {
	t.Helper()
	terms := ds.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].TopologyKey != corev1.LabelHostname {
		t.Fatalf("%s keeps clear of %+v, want one kind of pods on its node", ds.Name, terms)
	}
	return terms[0].LabelSelector
}
