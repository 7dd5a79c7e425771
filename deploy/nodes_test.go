package deploy

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// kubeProxyLabels are the labels of kube-proxy's pods in clusters of kubeadm
// (cmd/kubeadm/app/phases/addons/proxy/manifests.go).
var kubeProxyLabels = labels.Set{"k8s-app": "kube-proxy"}

// proxyLabel is the node label that chooses a node's proxy.
const proxyLabel = "kube-vmap.io/proxy"

func TestSelectorsMatchOwnPodsOnly(t *testing.T) {
	ds, cleanup := daemonSet(t, "base/daemonset.yaml"), daemonSet(t, "base/cleanup.yaml")
	ours, theirs := labels.Set(ds.Spec.Template.Labels), labels.Set(cleanup.Spec.Template.Labels)
	for name, c := range map[string]struct {
		selector        *metav1.LabelSelector
		takes, takesNot []labels.Set
	}{
		"kube-vmap's":                     {ds.Spec.Selector, []labels.Set{ours}, []labels.Set{kubeProxyLabels, theirs}},
		"cleanup's":                       {cleanup.Spec.Selector, []labels.Set{theirs}, []labels.Set{kubeProxyLabels, ours}},
		"what kube-vmap keeps clear of":   {awayFrom(t, ds), []labels.Set{kubeProxyLabels}, []labels.Set{ours, theirs}},
		"what cleanup keeps clear of":     {awayFrom(t, cleanup), []labels.Set{ours}, []labels.Set{kubeProxyLabels, theirs}},
		"that of those who look for both": {&metav1.LabelSelector{MatchLabels: kubeProxyLabels}, []labels.Set{kubeProxyLabels, ours}, []labels.Set{theirs}},
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

func TestEveryNodeGetsExactlyOneProxy(t *testing.T) {
	cleanup := labels.SelectorFromSet(daemonSet(t, "base/cleanup.yaml").Spec.Template.Spec.NodeSelector)
	for _, overlay := range []string{"beside-kube-proxy", "instead-of-kube-proxy"} {
		folder := "overlays/" + overlay
		ours, theirs := daemonSet(t, folder+"/nodes.yaml"), daemonSet(t, folder+"/kube-proxy.yaml")
		if base := daemonSet(t, "base/daemonset.yaml"); ours.Name != base.Name || ours.Namespace != base.Namespace || ours.Kind != base.Kind {
			t.Errorf("%s patches %s %s/%s, which is not in base", overlay, ours.Kind, ours.Namespace, ours.Name)
		}
		unlabelled := labels.Set{"kubernetes.io/os": "linux"}
		if got, want := nodes(t, ours)(unlabelled), overlay == "instead-of-kube-proxy"; got != want {
			t.Errorf("%s: kube-vmap on a node without label is %t, want %t", overlay, got, want)
		}
		for _, node := range []labels.Set{
			unlabelled, {proxyLabel: "enabled"}, {proxyLabel: "disabled"}, {proxyLabel: "cleanup"}, {proxyLabel: ""}, {"kube-vmap": "enabled"},
		} {
			if nodes(t, ours)(node) == nodes(t, theirs)(node) {
				t.Errorf("%s: a node with %v has both proxies or none", overlay, node)
			}
		}
		for value, want := range map[string]bool{"enabled": true, "disabled": false, "cleanup": false} {
			if got := nodes(t, ours)(labels.Set{proxyLabel: value}); got != want {
				t.Errorf("%s: kube-vmap on a node with %s=%s is %t, want %t", overlay, proxyLabel, value, got, want)
			}
			if got := cleanup.Matches(labels.Set{"kubernetes.io/os": "linux", proxyLabel: value}); got != (value == "cleanup") {
				t.Errorf("cleanup on a node with %s=%s is %t", proxyLabel, value, got)
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

// nodes returns which nodes a patch allows for a DaemonSet's pods.
func nodes(t *testing.T, patch appsv1.DaemonSet) func(labels.Set) bool {
	t.Helper()
	terms := patch.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 {
		t.Fatalf("nodes are %+v, want one expression", terms)
	}
	e := terms[0].MatchExpressions[0]
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values},
	}})
	if err != nil {
		t.Fatal(fmt.Errorf("%+v: %w", e, err))
	}
	return func(node labels.Set) bool { return selector.Matches(node) }
}
