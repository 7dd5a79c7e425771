package deploy

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestOnlyTheProxyReportsToTheScaler checks what nodes authenticate their reports with: a token that the
// API server rejects, for the container of the proxy. Pods start without the scaler, too.
func TestOnlyTheProxyReportsToTheScaler(t *testing.T) {
	pod := daemonSet(t, "base/daemonset.yaml").Spec.Template.Spec
	sources := pod.Volumes[1].Projected.Sources
	token, certificate := sources[0].ServiceAccountToken, sources[1].ConfigMap
	if len(sources) != 2 || token.Audience != "kube-vmap-scaler" || certificate.Name != "kube-vmap-scaler" || !*certificate.Optional {
		t.Errorf("the volume is %+v, want a token for the scaler and its ConfigMap, if there is one", sources)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == pod.Volumes[1].Name && m.ReadOnly && m.MountPath == "/var/run/secrets/kube-vmap-scaler"
		})
		if mounted != (c.Name == "kube-vmap") {
			t.Errorf("%s has it: %t", c.Name, mounted)
		}
	}
}
