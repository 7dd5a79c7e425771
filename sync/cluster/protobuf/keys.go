package protobuf

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/sync/convert"
)

// keys are the labels and annotations that are decoded.
var keys = func() map[string]string {
	out := map[string]string{
		// Package cluster reads these.
		corev1.EndpointsLastChangeTriggerTime: corev1.EndpointsLastChangeTriggerTime,
		metav1.InitialEventsAnnotationKey:     metav1.InitialEventsAnnotationKey,
	}
	for _, key := range convert.Keys {
		out[key] = key
	}
	return out
}()
