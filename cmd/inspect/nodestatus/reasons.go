package nodestatus

import (
	"fmt"
	"slices"
	"strings"

	"kube-vmap/model"
)

// A reason is a row of the table: the name, the severity, the text in the help of problems, which
// has no other reasons, the text of a state of Services, unless it is none, and the sentence (see
// [sentence.fill]); empty means the words of an error or of another program. Other sentences
// follow, each after the kind, severity or field of the findings that have it.
type reason struct {
	name string
	severity
	help, state string
	sentences   []string
}

func row(name string, s severity, help, state string, sentences ...string) reason {
	return reason{name, s, help, state, append(sentences, "")}
}

// reasons are all, first the states of Services, the worst first.
var reasons = []reason{
	row(model.ProblemRefused, problem, "the kernel refuses a part of the Service", "the kernel refuses a part"),
	row(model.ProblemMemory, problem, "the kernel has no memory for a change of the Service, which is retried",
		"the kernel has no memory for a change, which is retried"),
	row(model.ProblemConflict, problem, "another Service holds the address and port",
		"another Service holds an address of it", "{matches} {is|are} held by Service {message}"),
	row(model.ProblemUnusable, problem, "a part of an object cannot be used", "a part of it cannot be used"),
	row(ReasonNotProgrammed, problem, "the kernel's tables do not have a port or endpoint",
		"a port is not programmed", "the kernel's tables do not have [{of}: {named}||the port]"),
	row(ReasonNoPort, mostlyProblem, "endpoints lack the port (the name of targetPort); a problem if all do",
		"no endpoint has a port", "none of its {hit} [{family} ]endpoints has the port {message}; "+
			"their EndpointSlices have [{names}||none at all]",
		KindSome, "{of} {does|do} not have the port: {named}"),
	row(ReasonNoEndpoints, problem, "no pod has the labels of the selector, or no EndpointSlice has IP addresses",
		"a port has no endpoints: its connections are rejected", noEndpoint+
			"the selector [{message}||matches no pod with an {family} address||matches no pod with an address]",
		KindBehind, "no endpoint is known there, although other nodes know some: they may be behind the API server, "+
			"see kubectl vmap status",
		KindNoSelector, noEndpoint+
			"the Service has no selector, and no EndpointSlice with its name has [{family} ]addresses"),
	row(ReasonNotReady, mostlyProblem, "endpoints are not ready; a problem if that is all of them",
		"a port has no endpoint that is ready: its connections are rejected", "{of} {is|are} not ready"+refused),
	row(ReasonDrained, mostlyProblem, "endpoints have weight 0; a problem if that is all of them",
		"a port has only endpoints with weight 0: its connections are rejected", "{of} {has|have} weight 0"+refused),
	row(ReasonHeld, mostlyNotice, "connections wait for an endpoint; a problem if some do now",
		"a port has no endpoint that serves: its connections wait for one",
		"no endpoint that serves: connections wait for one, and are rejected when the first has waited for too long",
		SeverityProblem, "{clients client} {waits|wait} for an endpoint since {since}"),
	row(ReasonNoneLocal, mostlyNotice, "a policy is Local, and no endpoint is on the node; a problem if internal",
		"a policy is Local, and all endpoints are on other nodes",
		"[{family} ]connections from outside the cluster to"+noneLocal,
		FieldInternalLocal, "[{family} ]connections of clients on"+noneLocal),
	row(ReasonRefuses, problem, "an endpoint answers with a reset: nothing listens on the target port",
		"all endpoints of a port answer with a reset: nothing listens on the target port",
		"{of} {answers|answer} with a reset[, {times} within the observation][, and connections are {retried}]: "+
			"no program listens on port {number} there, or a network policy rejects: {named}"),
	row(model.ProblemOpen, notice, "source ranges are of one family, and the other one is open",
		"it is open to more clients than it may seem"),
	row(ReasonElsewhere, notice, "only other nodes serve an address, by their labels",
		"only other nodes serve it at other addresses than the ClusterIP",
		"only other nodes serve {frontends}, because of the labels of {node}"),
	row(StateOK, ok, "", "all ports are programmed"),
	row(StateProgrammed, ok, "", "what the kernel has of it is programmed"),

	row(model.ProblemEndpointUnresponsive, problem, "an endpoint replies neither to connections nor to probes", "",
		"endpoint {endpoint}: no reply[ {unanswered}] since {since}[: {pods}][; {avoided}]"),
	row(model.ProblemHealthCheck, problem, "the health check node port cannot be opened", ""),
	row(model.ProblemLocalhost, problem, "a node port cannot be opened on localhost", ""),
	row(model.ProblemNodePorts, problem, "node ports do not answer where they should", ""),
	row(model.ProblemAPIServer, problem, "kube-vmap reaches the API server through a Service", ""),
	row(ReasonOtherProxy, problem, "another proxy seems to run on the node", ""),
	row(ReasonReturned, problem, "the take-over failed, and kube-proxy's rules serve the node again", ""),
	row(ReasonUncertain, problem, "what the kernel holds is not known, after a failed change", "",
		"a change failed; this is the state before it, until the kernel has been read again"),
	row(ReasonUnread, problem, "something could not be read from the kernel", "", "the kernel cannot be read: {message}"),
	row(ReasonNode, problem, "kube-vmap does not work as it should on a node; see its status", ""),
	row(ReasonNotCounted, mostlyProblem, "connections are not counted, so resets are not known; the exit code is 2", "",
		"the counters of [{family} ]connections are full: further pairs of address and endpoint are not counted, "+
			"nor resets observed",
		KindShare, "its namespace has more than its share of the connection counters: connections are not counted for "+
			"ten minutes, nor resets observed"),
	row(ReasonFallback, mostlyProblem, "no endpoint is ready, so terminating ones serve; a notice if on one node", "",
		"no endpoint that may be used is ready, so terminating ones serve: {named}",
		SeverityNotice, "no endpoint of {node} is ready, so terminating ones serve where the policy is Local: {named}"),
	row(ReasonSilent, mostlyProblem, "an endpoint does not answer; a notice over UDP, where that may be right", "",
		"{of} {does|do} not answer[, {count connection} waiting]: "+
			"the pod or its node is gone, or a network policy or firewall drops: {named}",
		KindUDP, "{of} {does|do} not answer[, {count connection}]: "+
			"no program listens on port {number} there, something drops, or the protocol has no answers: {named}"),
	row(ReasonLocalPolicy, notice, "a policy is Local, so endpoints on other nodes are not used", "",
		"clients outside the cluster get only the endpoints of the node that they connect to: {part}",
		FieldInternalLocal, "clients on {node} get only the endpoints of their node: {part}"),
	row(ReasonHints, notice, "endpoints are for other zones or nodes (trafficDistribution)", "",
		"{of} {gets|get} no connections from {node}, because hints assign {it|them} to other {others}: {named}"),
	row(ReasonSourceRanges, notice, "only some clients may connect", "",
		"[only {some names}||no client of {families}] may connect to {frontends}, others are dropped",
		KindDenied, "connections from {some names} to {frontends} are dropped"),
	row(model.ProblemServiceCIDR, notice, "hosts have addresses in a ServiceCIDR", ""),
	row(ReasonAffinity, notice, "each client keeps its endpoint", "",
		"each client keeps its endpoint for {timeout} after its last new connection"),
	row(ReasonScheduler, notice, "endpoints are not chosen at random", "",
		"each client gets the endpoint that its address maps to"+byNode,
		model.SchedulerLeastConnections.String(), "endpoints with fewer connections get more new ones"+byNode),
	row(ReasonWeights, notice, "endpoints have different weights", "", "the {hit} endpoints have different weights"),
	row(ReasonSlowStart, notice, "endpoints have joined others, with a part of their weights for now", "",
		"{of} {has|have} joined others, with a part of the weight for now: {named}"),
	row(ReasonStandBy, notice, "endpoints stand by, since others have a better priority", "",
		"{of} {stands|stand} by, since others have a better priority: {named}"),
	row(ReasonBusy, notice, "endpoints get no connections for now, since others have fewer", "",
		"{of} {gets|get} no new connections for now, because others have fewer: {named}"),
	row(ReasonPublishedEarly, notice, "endpoints get connections although they are not ready", "",
		"{of} {gets|get} connections although {its pod is|their pods are} not ready: {named}"),
	row(ReasonProbation, notice, "kube-vmap has taken over from kube-proxy, and can go back", ""),
	row(model.ProblemEndpointPossiblyUnresponsive, notice,
		"clients get no reply from an endpoint, and probes do not show why", "",
		"[{clients client} {gets|get}||clients get]"+noReply+"no probe of {node} is known to reach it, "+
			"so whether it is unresponsive is not known",
		KindProbesWorked, "clients and probes get"+noReply+"no other endpoint of the Service has replied to a probe "+
			"meanwhile, so the cause may be {node} or a policy"),
	row(ReasonStale, notice, "endpoints have connections, but serve no more", "",
		"open connections[, {count},] to endpoints that get no new ones: {named}"),

	row(ReasonSyncFails, problem, "", "", "changes have not reached the kernel for {ago}: {message}"),
	row(ReasonOverdue, problem, "", "", "changes have been waiting for the kernel for {ago}"),
	row(ReasonNotCompared, problem, "", "",
		"changes of the tables by other programs have not been repaired for {ago}: {message}"),
	row(ReasonNothingYet, problem, "", "",
		"nothing is programmed yet, {ago} after the start[: no list yet of {names}]"),
	row(ReasonPortsRefused, problem, "", "", "the kernel refuses {number Service port}"),
	row(ReasonTableState, mostlyProblem, "", "", "the table of {family} {table}"),
	row(ReasonNotFollowing, problem, "", "", "the API server cannot be followed for {ago} ({names}): {message}"),
	row(ReasonFastPathOff, notice, "", "", "the fast path is off: {message}"),
	row(ReasonRepaired, notice, "", "",
		"tables that another program changed were repaired, last {ago} ago; {number time} since the start"),
	row(ReasonUnusableObjects, notice, "", "", "{number object} cannot be used, wholly or in part"),
	row(ReasonConflicts, notice, "", "", "other Services hold {number} of the addresses and ports of Services"),
	row(ReasonLogged, notice, "", "", "logged {ago} ago: {message}"),
	row(ReasonChecksLate, notice, "", "", "passive health checks are late: connections were last read {ago} ago"),
	row(ReasonUnresponsiveEndpoints, notice, "", "",
		"{hit endpoint} {is|are} unresponsive; kube-vmap problems lists them"),
	row(ReasonClientsWait, notice, "", "",
		"clients wait for an endpoint of {hit Service port}; kube-vmap problems lists them"),
	row(ReasonForwardRules, notice, "", ""),
}

// Parts of several sentences.
const (
	noEndpoint = "no [{family} ]endpoint in any EndpointSlice, so every [{family} ]connection is refused: "
	refused    = "[, so every {family} connection is {refused}||, so every connection is {refused}]: {named}"
	noneLocal  = " {node} are dropped: " +
		"[{only} endpoint that serves is on another node||all {all} endpoints that serve are on other nodes]"
	noReply = " no reply from endpoint {endpoint} since {since}[: {pods}]; "
	byNode  = "[, at the {number port} of Services that do not name a scheduler]"
)

func reasonOf(name string) *reason {
	i := slices.IndexFunc(reasons, func(r reason) bool { return r.name == name })
	if i < 0 {
		return &reason{severity: problem, sentences: []string{""}}
	}
	return &reasons[i]
}

// SeverityOf returns the usual severity of a reason or state.
func SeverityOf(name string) string { return reasonOf(name).usual }

// StateText returns what a state of a Service means.
func StateText(state string) string { return reasonOf(state).state }

// States returns all states of Services.
func States() (out []string) {
	for _, r := range reasons {
		if r.state != "" {
			out = append(out, r.name)
		}
	}
	return out
}

// Reasons returns all reasons of endpoints without connections.
func Reasons() (out []string) {
	for r := model.ReasonNoPort; r <= model.ReasonOtherZones; r++ {
		out = append(out, r.String())
	}
	return append(out, ReasonNotProgrammed, ReasonBusy, ReasonAvoided, ReasonGone)
}

// ReasonsHelp returns the reasons for a help text, a line for each.
func ReasonsHelp() string {
	var b strings.Builder
	for _, title := range []string{problem.title, mostlyProblem.title, notice.title} {
		fmt.Fprintln(&b, title)
		for _, r := range reasons {
			if r.title == title && r.help != "" {
				fmt.Fprintf(&b, "  %-31s %s\n", r.name, r.help)
			}
		}
	}
	return b.String()
}
