package findings

import (
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// The fields of Services behind findings, as in YAML.
const (
	FieldInternalLocal = "spec.internalTrafficPolicy: Local"
	FieldExternalLocal = "spec.externalTrafficPolicy: Local"
	FieldSourceRanges  = "spec.loadBalancerSourceRanges"
	FieldAffinity      = "spec.sessionAffinity: ClientIP"
	FieldSelector      = "spec.selector"
	FieldTargetPort    = "spec.ports[].targetPort"
	fieldPublish       = "spec.publishNotReadyAddresses: true"
	// These are in the configuration of kube-vmap.
	fieldScheduler = "ipvs.scheduler of the configuration"
	fieldNodePorts = "nodePortAddresses of the configuration"
)

// The fields of other objects.
const (
	fieldReady       = "status.conditions[Ready] of the pod"
	fieldSliceReady  = "endpoints[].conditions of the EndpointSlice"
	fieldServiceName = "metadata.labels[kubernetes.io/service-name] of an EndpointSlice"
	fieldDeletion    = "metadata.deletionTimestamp of the pod"
	fieldWeight      = "metadata.annotations[kube-vmap.io/weight] of the EndpointSlice"
	fieldHints       = "endpoints[].hints of the EndpointSlice"
	fieldPortName    = "ports[].name of the EndpointSlice"
)

// FieldOf returns the field because of which an endpoint gets no connections; empty if it
// gets some, or if no field is the cause.
func FieldOf(s *nodestatus.Service, e *nodestatus.Endpoint) string {
	switch e.Reason {
	case model.ReasonNoPort.String():
		return portField(e)
	case model.ReasonNotReady.String():
		return readyField(e)
	case model.ReasonDrained.String():
		return fieldWeight
	case model.ReasonNotLocal.String():
		return FieldInternalLocal // external traffic alone never excludes an endpoint
	case model.ReasonServingTerminating.String():
		return fieldDeletion
	case model.ReasonOtherNodes.String(), model.ReasonOtherZones.String():
		return hintsField(s, e)
	case nodestatus.ReasonBusy:
		return schedulerField(s)
	}
	return ""
}

func portField(e *nodestatus.Endpoint) string {
	if e.Manual {
		return fieldPortName
	}
	return FieldTargetPort // the controller omits a port that the pod has not named
}

func readyField(e *nodestatus.Endpoint) string {
	switch {
	case e.Manual:
		return fieldSliceReady
	case e.KnownConditions().Terminating:
		return fieldDeletion
	}
	return fieldReady
}

func hintsField(s *nodestatus.Service, e *nodestatus.Endpoint) string {
	if s.HintsField == "" || e.Manual {
		return fieldHints
	}
	return s.HintsField
}

func schedulerField(s *nodestatus.Service) string {
	if s.SchedulerField == "" {
		return fieldScheduler
	}
	return s.SchedulerField
}
