package convert

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Keys are the labels and annotations that [Service] and [Slice] read. An object needs no others.
var Keys = append([]string{
	LabelServiceProxyName, LabelHeadless, discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy,
	annotationScheduler, annotationPassiveChecks,
	corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints,
}, weightAnnotations[:]...)
