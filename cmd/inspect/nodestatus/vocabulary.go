package nodestatus

import (
	"cmp"

	"kube-vmap/model"
)

// Reasons of findings, problems and states of Services, in addition to the reasons of events, which
// package model has: one word for one thing, in all commands and on all pages. The table has their
// meanings.
const (
	ReasonNotProgrammed  = "NotProgrammed"
	ReasonNoPort         = "NoPort"
	ReasonNoEndpoints    = "NoEndpoints"
	ReasonNotReady       = "NotReady"
	ReasonDrained        = "Drained"
	ReasonHeld           = "Held"
	ReasonNoneLocal      = "NoneLocal"
	ReasonRefuses        = "Refuses"
	ReasonOtherProxy     = "OtherProxy"
	ReasonReturned       = "Returned"
	ReasonUncertain      = "Uncertain"
	ReasonUnread         = "Unread"
	ReasonNode           = "Node" // the kind is the reason of a finding about the node's own work
	ReasonNotCounted     = "NotCounted"
	ReasonFallback       = "Fallback"
	ReasonSilent         = "Silent"
	ReasonLocalPolicy    = "LocalPolicy"
	ReasonHints          = "Hints"
	ReasonElsewhere      = "Elsewhere"
	ReasonSourceRanges   = "SourceRanges"
	ReasonAffinity       = "Affinity"
	ReasonScheduler      = "Scheduler"
	ReasonWeights        = "Weights"
	ReasonSlowStart      = "SlowStart"
	ReasonStandBy        = "StandBy"
	ReasonBusy           = "Busy"
	ReasonPublishedEarly = "PublishedEarly"
	ReasonProbation      = "Probation"
	ReasonStale          = "Stale"
	// ReasonAvoided and ReasonGone are of endpoints: an unresponsive one, and one that is in no
	// EndpointSlice, but has connections. A Service does not count the latter.
	ReasonAvoided               = "Avoided"
	ReasonGone                  = "Gone"
	ReasonSyncFails             = "SyncFails"
	ReasonOverdue               = "Overdue"
	ReasonNotCompared           = "NotCompared"
	ReasonNothingYet            = "NothingYet"
	ReasonPortsRefused          = "PortsRefused"
	ReasonTableState            = "TableState"
	ReasonNotFollowing          = "NotFollowing"
	ReasonForwarding            = "Forwarding"
	ReasonForwardRules          = "ForwardRules"
	ReasonTracking              = "TrackingFull"
	ReasonDemand                = "DemandNotReported"
	ReasonFastPathOff           = "FastPathOff"
	ReasonRepaired              = "Repaired"
	ReasonUnusableObjects       = "UnusableObjects"
	ReasonConflicts             = "Conflicts"
	ReasonLogged                = "Logged"
	ReasonChecksLate            = "ChecksLate"
	ReasonUnresponsiveEndpoints = "UnresponsiveEndpoints"
	ReasonClientsWait           = "ClientsWait"

	// StateProgrammed replaces StateOK in documents from the kernel, which does not know objects,
	// conflicts and what is missing.
	StateOK         = "OK"
	StateProgrammed = "Programmed"
)

// Kinds of findings whose reason has several sentences. Others are a scheduler, the reason of
// endpoints, or the reason of a finding about the node's own work.
const (
	KindBehind       = "Behind"       // NoEndpoints, although other nodes know some
	KindNoSelector   = "NoSelector"   // NoEndpoints, and the Service has no selector
	KindSome         = "SomeLackPort" // NoPort, but not all
	KindUDP          = "SilentUDP"
	KindRetried      = "Retried"      // Refuses, and the connections are retried
	KindAvoided      = "Avoided"      // EndpointUnresponsive, and it gets no new connections
	LastEndpoint     = "LastEndpoint" // it gets some, as the last one
	MaxPercent       = "MaxPercent"   // it gets some, as no more may be avoided
	KindDenied       = "Denied"       // SourceRanges, of those that may not
	KindShare        = "CounterShare"
	KindProbesWorked = "ProbesWorked" // EndpointPossiblyUnresponsive, and probes had replies before
)

// Severities, the worst last. A notice may be intended: on a node without endpoints of a Service,
// its Local policy drops external traffic. A Service of which a part is not served has a problem.
const (
	SeverityOK      = "OK"
	SeverityNotice  = "Notice"
	SeverityProblem = "Problem"
)

// Severities returns all.
func Severities() []string { return []string{SeverityOK, SeverityNotice, SeverityProblem} }

// A severity is the usual one of a reason, and the title in [ReasonsHelp].
type severity struct{ usual, title string }

var (
	ok            = severity{SeverityOK, ""}
	problem       = severity{SeverityProblem, "Problem"}
	mostlyProblem = severity{SeverityProblem, "Problem or Notice"}
	mostlyNotice  = severity{SeverityNotice, "Problem or Notice"}
	notice        = severity{SeverityNotice, "Notice (it may be intended)"}
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
