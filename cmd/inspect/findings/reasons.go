package findings

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

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
	StandBy        = "StandBy"
	NoPort         = nodestatus.StateNoPort
	LocalPolicy    = "LocalPolicy"
	NoneLocal      = nodestatus.StateNoneLocal
	Held           = nodestatus.StateHeld
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
	ClientsWait           = "ClientsWait"
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
	{model.ProblemHealthCheck, "the health check node port cannot be opened", problem},
	{model.ProblemLocalhost, "a node port cannot be opened on localhost", problem},
	{model.ProblemNodePorts, "node ports do not answer where they should", problem},
	{model.ProblemAPIServer, "kube-vmap reaches the API server through a Service", problem},
	{nodestatus.ReasonOtherProxy, "another proxy seems to run on the node", problem},
	{nodestatus.ReasonReturned, "the take-over failed, and kube-proxy's rules serve the node again", problem},
	{nodestatus.ReasonUncertain, "what the kernel holds is not known, after a failed change", problem},
	{nodestatus.ReasonUnread, "something could not be read from the kernel", problem},
	{reasonNode, "kube-vmap does not work as it should on a node; see its status", problem},
	{nodestatus.ReasonNotCounted, "connections are not counted, so that resets are not known; the exit code is 2", ""},
	{Held, "connections wait for an endpoint; a problem if some do now", ""},
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
	{StandBy, "endpoints stand by, since others have a better priority", notice},
	{Busy, "endpoints get no connections for now, since others have fewer", notice},
	{PublishedEarly, "endpoints get connections although they are not ready", notice},
	{nodestatus.ReasonProbation, "kube-vmap has taken over from kube-proxy, and can go back", notice},
	{EndpointPossiblyUnresponsive, "clients get no reply from an endpoint, and probes do not show why", notice},
	{Stale, "endpoints have connections, but serve no more", notice},
}

// sentences are the words about findings by their kind, or by a reason that has one kind. Findings
// with others are in the words of an error, or of another program.
var sentences = map[string]func(*sentence) string{
	NoEndpoints: func(s *sentence) string {
		return s.noEndpoint() + "the selector " + cmp.Or(s.Message, "matches no pod with an "+s.family()+"address")
	},
	kindNoSelector: func(s *sentence) string {
		return s.noEndpoint() + "the Service has no selector, and no EndpointSlice with its name has " +
			s.family() + "addresses"
	},
	KindBehind: words("no endpoint is known there, although other nodes know some: they may be behind the API server, " +
		"see kubectl vmap status"),
	NotProgrammed: func(s *sentence) string {
		what := "the port"
		if s.All > 0 {
			what = s.of() + s.named()
		}
		return "the kernel's tables do not have " + what
	},
	NotReady: func(s *sentence) string {
		return s.of() + s.pick(" is", " are") + " not ready" + s.refused() + s.named()
	},
	Drained: func(s *sentence) string {
		return s.of() + s.pick(" has", " have") + " weight 0" + s.refused() + s.named()
	},
	StandBy: func(s *sentence) string {
		return s.of() + s.pick(" stands", " stand") + " by, since others have a better priority" + s.named()
	},
	Fallback: func(s *sentence) string {
		return "no endpoint that may be used is ready, so that terminating ones serve" + s.named()
	},
	Held: func(s *sentence) string {
		if s.IsProblem() {
			return nodestatus.Plural(s.Clients, "client") + map[bool]string{true: " waits", false: " wait"}[s.Clients == 1] +
				" for an endpoint since " + s.since()
		}
		return "no endpoint that serves: connections wait for one, and are rejected when the first has waited for too long"
	},
	kindFallbackLocal: func(s *sentence) string {
		return "no endpoint of " + s.node() + " is ready, so that terminating ones serve where the policy is Local" +
			s.named()
	},
	PublishedEarly: func(s *sentence) string {
		return s.of() + s.pick(" gets", " get") + " connections although " +
			s.pick("its pod is", "their pods are") + " not ready" + s.named()
	},
	kindSome: func(s *sentence) string { return s.of() + s.pick(" does", " do") + " not have the port" + s.named() },
	NoPort: func(s *sentence) string {
		return fmt.Sprintf("none of its %d %sendpoints has the port %s; their EndpointSlices have %s",
			s.Hit, s.family(), s.Message, cmp.Or(strings.Join(s.Names, ", "), "none at all"))
	},
	LocalPolicy: func(s *sentence) string {
		return fmt.Sprintf("clients outside the cluster get only the endpoints of the node that they connect to: %d of %d",
			s.Hit, s.All)
	},
	LocalPolicy + "Internal": func(s *sentence) string {
		return fmt.Sprintf("clients on %s get only the endpoints of their node: %d of %d", s.node(), s.Hit, s.All)
	},
	NoneLocal: func(s *sentence) string {
		return s.family() + "connections from outside the cluster to " + s.node() + " are dropped: " + s.elsewhere()
	},
	NoneLocal + "Internal": func(s *sentence) string {
		return s.family() + "connections of clients on " + s.node() + " are dropped: " + s.elsewhere()
	},
	model.ReasonOtherZones.String(): func(s *sentence) string { return s.hints("zones") },
	model.ReasonOtherNodes.String(): func(s *sentence) string { return s.hints("nodes") },
	SourceRanges: func(s *sentence) string {
		who := "no client of " + strings.Join(s.Families, " and ")
		if len(s.Names) > 0 {
			who = "only " + some(s.Names)
		}
		return who + " may connect to " + some(s.Frontends) + ", others are dropped"
	},
	Affinity: func(s *sentence) string {
		return fmt.Sprintf("each client keeps its endpoint for %s after its last new connection",
			time.Duration(s.Seconds)*time.Second)
	},
	model.SchedulerSourceHash.String(): byAddress,
	model.SchedulerMaglev.String():     byAddress,
	model.SchedulerLeastConnections.String(): func(s *sentence) string {
		return "endpoints with fewer connections get more new ones" + s.ports()
	},
	Weights: func(s *sentence) string { return fmt.Sprintf("the %d endpoints have different weights", s.Hit) },
	Busy: func(s *sentence) string {
		return s.of() + s.pick(" gets", " get") + " no new connections for now, because others have fewer" + s.named()
	},
	Refuses: func(s *sentence) string {
		return s.of() + s.pick(" answers", " answer") + " with a reset" +
			s.counted(", once within the observation", ", %d times within the observation") +
			fmt.Sprintf(": no program listens on port %d there, or a network policy rejects", s.Number) + s.named()
	},
	Silent: func(s *sentence) string {
		return s.of() + s.pick(" does", " do") + " not answer" +
			s.counted(", 1 connection waiting", ", %d connections waiting") +
			": the pod or its node is gone, or a network policy or firewall drops" + s.named()
	},
	kindUDP: func(s *sentence) string {
		return s.of() + s.pick(" does", " do") + " not answer" + s.counted(", 1 connection", ", %d connections") +
			fmt.Sprintf(": no program listens on port %d there, something drops, or the protocol has no answers", s.Number) +
			s.named()
	},
	EndpointUnresponsive: unresponsive,
	KindAvoided:          func(s *sentence) string { return unresponsive(s) + "; new connections avoid it" },
	EndpointPossiblyUnresponsive: func(s *sentence) string {
		waiting := "clients get"
		if s.Clients > 0 { // or nodes differ
			waiting = nodestatus.Plural(s.Clients, "client") + map[bool]string{true: " gets", false: " get"}[s.Clients == 1]
		}
		return waiting + " no reply from " + s.endpointSince() + "; no probe of " + s.node() +
			" is known to reach it, so whether it is unresponsive is not known"
	},
	kindProbesWorked: func(s *sentence) string {
		return "clients and probes get no reply from " + s.endpointSince() + "; no other endpoint of the Service has " +
			"replied to a probe meanwhile, so the cause may be " + s.node() + " or a policy"
	},
	ChecksLate: func(s *sentence) string {
		return "passive health checks are late: connections were last read " + s.ago() + " ago"
	},
	UnresponsiveEndpoints: func(s *sentence) string {
		return strconv.Itoa(s.Hit) + s.pick(" endpoint is", " endpoints are") + " unresponsive; kube-vmap problems lists them"
	},
	ClientsWait: func(s *sentence) string {
		return "clients wait for an endpoint of " + strconv.Itoa(s.Hit) + s.pick(" Service port", " Service ports") +
			"; kube-vmap problems lists them"
	},
	Stale: func(s *sentence) string {
		return "open connections" + s.counted(", 1,", ", %d,") + " to endpoints that get no new ones any more" + s.named()
	},
	kindShare: words("its namespace has more than its share of the connection counters: connections are not counted for " +
		"ten minutes, nor resets observed"),
	nodestatus.ReasonNotCounted: func(s *sentence) string {
		return "the counters of " + s.family() + "connections are full: those of further pairs of address " +
			"and endpoint are not counted, nor resets observed"
	},
	model.ProblemConflict: func(s *sentence) string {
		return nodestatus.JoinFirst(s.Names, s.Number, len(s.Names)) +
			map[bool]string{true: " is", false: " are"}[s.Number <= 1] + " held by Service " + s.Message
	},

	nodestatus.ReasonUncertain: words("a change failed; this is the state before it, " +
		"until the kernel has been read again"),
	nodestatus.ReasonUnread: func(s *sentence) string { return "the kernel cannot be read: " + s.Message },
	SyncFails: func(s *sentence) string {
		return "changes have not reached the kernel for " + s.ago() + ": " + s.Message
	},
	Overdue: func(s *sentence) string { return "changes have been waiting for the kernel for " + s.ago() },
	NotCompared: func(s *sentence) string {
		return "changes of the tables by other programs have not been repaired for " + s.ago() + ": " + s.Message
	},
	NothingYet: func(s *sentence) string {
		text := "nothing is programmed yet, " + s.ago() + " after the start"
		if len(s.Names) > 0 {
			text += ": no list yet of " + strings.Join(s.Names, ", ")
		}
		return text
	},
	PortsRefused: func(s *sentence) string { return "the kernel refuses " + nodestatus.Plural(s.Number, "Service port") },
	TableState:   func(s *sentence) string { return "the table of " + s.family() + tableStates[s.Message] },
	NotFollowing: func(s *sentence) string {
		return fmt.Sprintf("the API server cannot be followed for %s (%s): %s", s.ago(), strings.Join(s.Names, ", "),
			s.Message)
	},
	FastPathOff: func(s *sentence) string { return "the fast path is off: " + s.Message },
	Repaired: func(s *sentence) string {
		return fmt.Sprintf("tables that another program changed were repaired, last %s ago; %s since the start", s.ago(),
			nodestatus.Plural(s.Number, "time"))
	},
	Unusable: func(s *sentence) string {
		return nodestatus.Plural(s.Number, "object") + " cannot be used, wholly or in part"
	},
	Conflicts: func(s *sentence) string {
		return fmt.Sprintf("other Services hold %d of the addresses and ports of Services", s.Number)
	},
	Logged: func(s *sentence) string { return "logged " + s.ago() + " ago: " + s.Message },
}

func words(text string) func(*sentence) string { return func(*sentence) string { return text } }

func unresponsive(s *sentence) string {
	return fmt.Sprintf("endpoint %s: no reply%s since %s%s", s.endpoint(), s.unanswered(), s.since(), s.pods())
}

func byAddress(s *sentence) string {
	return "each client gets the endpoint that its address leads to" + s.ports()
}

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
		fmt.Fprintf(&b, "  %-31s %s\n", r.name, r.text)
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
	fieldHold        = "metadata.annotations[kube-vmap.io/hold]"
	fieldPriority    = "metadata.annotations[kube-vmap.io/priority] of the EndpointSlice"
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
	case model.ReasonStandBy.String():
		return fieldPriority
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
