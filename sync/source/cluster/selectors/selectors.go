// Package selectors has kube-proxy's selectors, which kube-vmap uses to list and watch.
// Programs that compare what it has seen with the API server use the same.
package selectors

import corev1 "k8s.io/api/core/v1"

// The selectors of Services that have a ClusterIP and are not labelled for another proxy
// (KEP-2447), and of their EndpointSlices.
const (
	ServiceLabels = "!service.kubernetes.io/service-proxy-name"
	ServiceFields = "spec.clusterIP!=" + corev1.ClusterIPNone
	SliceLabels   = "!" + corev1.IsHeadlessService
)
