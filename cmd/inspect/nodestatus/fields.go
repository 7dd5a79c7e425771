package nodestatus

import (
	"cmp"

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
	FieldPublish       = "spec.publishNotReadyAddresses: true"
	// These are in the configuration of kube-vmap.
	FieldScheduler = "ipvs.scheduler of the configuration"
	FieldNodePorts = "nodePortAddresses of the configuration"
)

// The fields of other objects.
const (
	FieldReady       = "status.conditions[Ready] of the pod"
	FieldSliceReady  = "endpoints[].conditions of the EndpointSlice"
	FieldServiceName = "metadata.labels[kubernetes.io/service-name] of an EndpointSlice"
	FieldDeletion    = "metadata.deletionTimestamp of the pod"
	FieldWeight      = "metadata.annotations[kube-vmap.io/weight] of the EndpointSlice"
	FieldDenied      = "metadata.annotations[kube-vmap.io/denied-source-ranges]"
	FieldNodes       = "metadata.annotations[kube-vmap.io/nodes]"
	FieldHold        = "metadata.annotations[kube-vmap.io/hold]"
	FieldSlowStart   = "metadata.annotations[kube-vmap.io/slow-start]"
	FieldPriority    = "metadata.annotations[kube-vmap.io/priority] of the EndpointSlice"
	FieldHints       = "endpoints[].hints of the EndpointSlice"
	FieldAddress     = "endpoints[].addresses of the EndpointSlice: "
	FieldPortName    = "ports[].name of the EndpointSlice"
)

// FieldOf returns the field because of which an endpoint gets no connections; empty if it
// gets some, or if no field is the cause.
func FieldOf(s *Service, e *Endpoint) string {
	switch e.Reason {
	case model.ReasonNoPort.String():
		if e.Manual {
			return FieldPortName
		}
		return FieldTargetPort // the controller omits a port that the pod has not named
	case model.ReasonNotReady.String():
		return ReadyField(e)
	case model.ReasonDrained.String():
		return FieldWeight
	case model.ReasonStandBy.String():
		return FieldPriority
	case model.ReasonNotLocal.String():
		return FieldInternalLocal // external traffic alone never excludes an endpoint
	case model.ReasonServingTerminating.String():
		return FieldDeletion
	case model.ReasonOtherNodes.String(), model.ReasonOtherZones.String():
		if e.Manual {
			return FieldHints
		}
		return cmp.Or(s.HintsField, FieldHints)
	case ReasonBusy:
		return cmp.Or(s.SchedulerField, FieldScheduler)
	}
	return ""
}

// ReadyField returns the field because of which an endpoint is not ready.
func ReadyField(e *Endpoint) string {
	switch {
	case e.Manual:
		return FieldSliceReady
	case e.KnownConditions().Terminating:
		return FieldDeletion
	}
	return FieldReady
}
