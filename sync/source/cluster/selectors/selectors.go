// Package selectors has kube-proxy's selectors, which kube-vmap uses to list and watch.
// Programs that compare what it has seen with the API server use the same.
package selectors

import (
	corev1 "k8s.io/api/core/v1"

	"kube-vmap/model"
)

// ServiceLabels selects the Services for this proxy (KEP-2447).
func ServiceLabels() string {
	if name := model.ProxyName(); name != "" {
		return model.LabelServiceProxyName + "=" + name
	}
	return "!" + model.LabelServiceProxyName
}

// The selectors of Services that have a ClusterIP, and of EndpointSlices. Authors may write slices
// without the label, so a proxy with a name reads the slices of others, too.
const (
	ServiceFields = "spec.clusterIP!=" + corev1.ClusterIPNone
	SliceLabels   = "!" + corev1.IsHeadlessService
)
