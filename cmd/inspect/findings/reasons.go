package findings

import (
	"cmp"
	"fmt"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// Reasons of findings, in addition to those of problems in documents; see [ReasonsHelp].
const (
	NoEndpoints    = nodestatus.StateNoEndpoints
	NotProgrammed  = nodestatus.StateNotProgrammed
	NotReady       = nodestatus.StateNotReady
	Fallback       = "Fallback"
	PublishedEarly = "PublishedEarly"
	Drained        = nodestatus.StateDrained
	NoPort         = nodestatus.StateNoPort
	LocalPolicy    = "LocalPolicy"
	NoneLocal      = nodestatus.StateNoneLocal
	Hints          = "Hints"
	SourceRanges   = "SourceRanges"
	Affinity       = "Affinity"
	Scheduler      = "Scheduler"
	Weights        = "Weights"
	Busy           = "Busy"
	Refuses        = "Refuses"
	Silent         = "Silent"
	Stale          = "Stale"

	EndpointUnresponsive         = model.ProblemEndpointUnresponsive
	EndpointPossiblyUnresponsive = model.ProblemEndpointPossiblyUnresponsive

	reasonNode = "Node" // a problem of the node itself
)

// Kinds of findings whose reason has several sentences. Others are a scheduler, the reason of
// endpoints, or that of a finding about the node's own work.
const (
	KindBehind     = "Behind"     // NoEndpoints, although other nodes know some
	kindNoSelector = "NoSelector" // NoEndpoints, and the Service has no selector
	kindSome       = "SomeLackPort"
	kindUDP        = "SilentUDP"
	KindAvoided    = "Avoided" // EndpointUnresponsive, and it gets no new connections
	kindShare      = "CounterShare"
	// EndpointPossiblyUnresponsive, and probes had replies before.
	kindProbesWorked = "ProbesWorked"
	// Of endpoints on this node, while others are ready.
	kindFallbackLocal = "FallbackLocal"
)

// Reasons of findings about a node's own work, with those of package nodestatus.
const (
	SyncFails    = "SyncFails"
	Overdue      = "Overdue"
	NotCompared  = "NotCompared"
	NothingYet   = "NothingYet"
	PortsRefused = "PortsRefused"
	TableState   = "TableState"
	NotFollowing = "NotFollowing"
	FastPathOff  = "FastPathOff"
	Repaired     = "Repaired"
	Unusable     = "UnusableObjects"
	Conflicts    = "Conflicts"
	Logged       = "Logged"
	ChecksLate   = "ChecksLate"

	UnresponsiveEndpoints = "UnresponsiveEndpoints"
)

const (
	problem = nodestatus.SeverityProblem
	notice  = nodestatus.SeverityNotice
)

// reasons are those of all findings, with the severity; both are possible if that is empty.
var reasons = []struct{ name, text, severity string }{
	{NoEndpoints, "no pod has the labels of the selector, or no EndpointSlice has IP addresses", problem},
	{Refuses, "an endpoint answers with a reset: nothing listens on the target port", problem},
	{EndpointUnresponsive, "an endpoint replies neither to connections nor to probes", problem},
	{NotProgrammed, "the kernel's tables do not have a port or endpoint", problem},
	{model.ProblemRefused, "the kernel refuses a part of the Service", problem},
	{model.ProblemConflict, "another Service holds the address and port", problem},
	{model.ProblemUnusable, "a part of an object cannot be used", problem},
	{model.ProblemNodePorts, "node ports do not answer where they should", problem},
	{model.ProblemAPIServer, "kube-vmap reaches the API server through a Service", problem},
	{nodestatus.ReasonOtherProxy, "another proxy seems to run on the node", problem},
	{nodestatus.ReasonReturned, "the take-over failed, and kube-proxy's rules serve the node again", problem},
	{nodestatus.ReasonUncertain, "what the kernel holds is not known, after a failed change", problem},
	{nodestatus.ReasonUnread, "something could not be read from the kernel", problem},
	{reasonNode, "kube-vmap does not work as it should on a node; see its status", problem},
	{nodestatus.ReasonNotCounted, "connections are not counted, so that resets are not known; the exit code is 2", ""},
	{NotReady, "endpoints are not ready; a problem if that is all of them", ""},
	{Fallback, "no endpoint is ready, so that terminating ones serve; a notice if on one node", ""},
	{Drained, "endpoints have weight 0; a problem if that is all of them", ""},
	{NoPort, "endpoints lack the port (the name of targetPort); a problem if all do", ""},
	{NoneLocal, "a policy is Local, and no endpoint is on the node; a problem if internal", ""},
	{Silent, "an endpoint does not answer; a notice over UDP, where that may be right", ""},
	{LocalPolicy, "a policy is Local, so that endpoints on other nodes are not used", notice},
	{Hints, "endpoints are for other zones or nodes (trafficDistribution)", notice},
	{SourceRanges, "only some clients may connect", notice},
	{model.ProblemOpen, "source ranges are of one family, and the other one is open", notice},
	{model.ProblemServiceCIDR, "hosts have addresses in a ServiceCIDR", notice},
	{Affinity, "each client keeps its endpoint", notice},
	{Scheduler, "endpoints are not chosen at random", notice},
	{Weights, "endpoints have different weights", notice},
	{Busy, "endpoints get no connections for now, since others have fewer", notice},
	{PublishedEarly, "endpoints get connections although they are not ready", notice},
	{nodestatus.ReasonProbation, "kube-vmap has taken over from kube-proxy, and can go back", notice},
	{EndpointPossiblyUnresponsive, "clients get no reply from an endpoint, and probes do not show why", notice},
	{Stale, "endpoints have connections, but serve no more", notice},
}

// sentences are the words about findings by their kind, or by a reason that has one kind. Findings
// with others are in the words of an error, or of another program. $of, $named and so on are what
// [sentence.word] returns: ${is|are} is chosen by the number of endpoints, ${#one|many} by that of
// connections, ${!problem|notice} by the severity, and ${*noun} is Number of these.
var sentences = map[string]string{
	NoEndpoints: noEndpoint + "the selector $selector",
	kindNoSelector: noEndpoint + "the Service has no selector, and no EndpointSlice with its name has ${family}" +
		"addresses",
	KindBehind: "no endpoint is known there, although other nodes know some: they may be behind the API server, " +
		"see kubectl vmap status",
	NotProgrammed: "the kernel's tables do not have $missing",
	NotReady:      "$of ${is|are} not ready$refused$named",
	Drained:       "$of ${has|have} weight 0$refused$named",
	Fallback:      "no endpoint that may be used is ready, so that terminating ones serve$named",
	kindFallbackLocal: "no endpoint of $node is ready, so that terminating ones serve where the policy is " +
		"Local$named",
	PublishedEarly: "$of ${gets|get} connections although ${its pod is|their pods are} not ready$named",
	kindSome:       "$of ${does|do} not have the port$named",
	NoPort: "none of its $hit ${family}endpoints has the port $message; " +
		"their EndpointSlices have $offered",
	LocalPolicy: "clients outside the cluster get only the endpoints of the node " +
		"that they connect to: $hit of $all",
	LocalPolicy + "Internal": "clients on $node get only the endpoints of their node: $hit of $all",
	NoneLocal:                "connections from outside the cluster to $node are dropped: " + elsewhere,
	NoneLocal + "Internal":   "connections of clients on $node are dropped: " + elsewhere,

	model.ReasonOtherZones.String():          hints + "zones$named",
	model.ReasonOtherNodes.String():          hints + "nodes$named",
	SourceRanges:                             "$clients may connect to $frontends, others are dropped",
	Affinity:                                 "each client keeps its endpoint for $seconds after its last new connection",
	model.SchedulerSourceHash.String():       byAddress,
	model.SchedulerMaglev.String():           byAddress,
	model.SchedulerLeastConnections.String(): "endpoints with fewer connections get more new ones$ports",
	Weights:                                  "the $hit endpoints have different weights",
	Busy: "$of ${gets|get} no new connections for now, " +
		"because others have fewer$named",

	Refuses: "$of ${answers|answer} with a reset${#, once within the observation|, %d times within the observation}: " +
		"no program listens on port $number there, or a network policy rejects$named",
	Silent: "$of ${does|do} not answer${#, 1 connection waiting|, %d connections waiting}: " +
		"the pod or its node is gone, or a network policy or firewall drops$named",
	kindUDP: "$of ${does|do} not answer${#, 1 connection|, %d connections}: " +
		"no program listens on port $number there, something drops, or the protocol has no answers$named",
	EndpointUnresponsive: unresponsive,
	KindAvoided:          unresponsive + "; new connections avoid it",
	EndpointPossiblyUnresponsive: "$waiting no reply from endpoint $names$on since $since$pods; " +
		"no probe of $node is known to reach it, so whether it is unresponsive is not known",
	kindProbesWorked: "clients and probes get no reply from endpoint $names$on since $since$pods; " +
		"no other endpoint of the Service has replied to a probe meanwhile, so the cause may be $node or a policy",
	ChecksLate:            "passive health checks are late: connections were last read $ago ago",
	UnresponsiveEndpoints: "$hit ${endpoint is|endpoints are} unresponsive; kube-vmap problems lists them",
	Stale:                 "open connections${#, 1,|, %d,} to endpoints that get no new ones any more$named",
	kindShare: "its namespace has more than its share of the connection counters: connections are not counted for " +
		"ten minutes, nor resets observed",
	nodestatus.ReasonNotCounted: "the counters of ${family}connections are full: those of further pairs of address " +
		"and endpoint are not counted, nor resets observed",
	model.ProblemConflict: "$held held by Service $message",

	nodestatus.ReasonUncertain: "a change failed; this is the state before it, until the kernel has been read again",
	nodestatus.ReasonUnread:    "the kernel cannot be read: $message",
	SyncFails:                  "changes have not reached the kernel for $ago: $message",
	Overdue:                    "changes have been waiting for the kernel for $ago",
	NotCompared:                "changes of the tables by other programs have not been repaired for $ago: $message",
	NothingYet:                 "nothing is programmed yet, $ago after the start$unlisted",
	PortsRefused:               "the kernel refuses ${*Service port}",
	TableState:                 "the table of ${family}$state",
	NotFollowing:               "the API server cannot be followed for $ago ($names): $message",
	FastPathOff:                "the fast path is off: $message",
	Repaired: "tables that another program changed were repaired, " +
		"last $ago ago; ${*time} since the start",
	Unusable:  "${*object} cannot be used, wholly or in part",
	Conflicts: "other Services hold $number of the addresses and ports of Services",
	Logged:    "logged $ago ago: $message",
}

// Parts of several sentences.
const (
	unresponsive = "endpoint $names$on: no reply$unanswered since $since$pods"
	noEndpoint   = "no ${family}endpoint in any EndpointSlice, so that every ${family}connection is refused: "
	elsewhere    = "${the only endpoint that serves is on another node|all %d endpoints that serve are on other nodes}"
	hints        = "$of ${gets|get} no connections from $node, because hints assign ${it|them} to other "
	byAddress    = "each client gets the endpoint that its address leads to$ports"
)

var tableStates = map[string]string{
	nodestatus.TableForeign: "belongs to another program, so that nothing can be changed",
	nodestatus.TableDormant: "is disabled by another program, so that no packet reaches it",
	nodestatus.TableMissing: "is missing",
	nodestatus.TableOpen:    "has no owner, so that other programs can change it",
}

// ReasonsHelp returns the reasons for a help text, a line for each.
func ReasonsHelp() string {
	titles := map[string]string{
		problem: "Problem", "": "Problem or Notice", notice: "Notice (it may be intended)",
	}
	var b strings.Builder
	for i, r := range reasons {
		if i == 0 || r.severity != reasons[i-1].severity {
			fmt.Fprintln(&b, titles[r.severity])
		}
		fmt.Fprintf(&b, "  %-30s%s\n", r.name, r.text)
	}
	return b.String()
}

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
	fieldAddress     = "endpoints[].addresses of the EndpointSlice: "
	fieldPortName    = "ports[].name of the EndpointSlice"
)

// FieldOf returns the field because of which an endpoint gets no connections; empty if it
// gets some, or if no field is the cause.
func FieldOf(s *nodestatus.Service, e *nodestatus.Endpoint) string {
	switch e.Reason {
	case model.ReasonNoPort.String():
		if e.Manual {
			return fieldPortName
		}
		return FieldTargetPort // the controller omits a port that the pod has not named
	case model.ReasonNotReady.String():
		return readyField(e)
	case model.ReasonDrained.String():
		return fieldWeight
	case model.ReasonNotLocal.String():
		return FieldInternalLocal // external traffic alone never excludes an endpoint
	case model.ReasonServingTerminating.String():
		return fieldDeletion
	case model.ReasonOtherNodes.String(), model.ReasonOtherZones.String():
		if e.Manual {
			return fieldHints
		}
		return cmp.Or(s.HintsField, fieldHints)
	case nodestatus.ReasonBusy:
		return cmp.Or(s.SchedulerField, fieldScheduler)
	}
	return ""
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
