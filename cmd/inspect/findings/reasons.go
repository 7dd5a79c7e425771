package findings

import (
	"fmt"
	"strings"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/model"
)

// Reasons of findings, in addition to those of problems in documents; see [ReasonsHelp].
const (
	NoEndpoints    = status.StateNoEndpoints
	NotProgrammed  = status.StateNotProgrammed
	NotReady       = status.StateNotReady
	Fallback       = "Fallback"
	PublishedEarly = "PublishedEarly"
	Drained        = status.StateDrained
	NoPort         = status.StateNoPort
	LocalPolicy    = "LocalPolicy"
	NoneLocal      = status.StateNoneLocal
	Hints          = "Hints"
	SourceRanges   = "SourceRanges"
	Affinity       = "Affinity"
	Scheduler      = "Scheduler"
	Weights        = "Weights"
	Busy           = "Busy"
	Refuses        = "Refuses"
	Silent         = "Silent"
	Stale          = "Stale"

	reasonNode = "Node" // a problem of the node itself
)

// Kinds of findings whose reason has several sentences. Others are a scheduler, the reason of
// endpoints, or that of a finding about the node's own work.
const (
	KindBehind     = "Behind"     // NoEndpoints, although other nodes know some
	kindNoSelector = "NoSelector" // NoEndpoints, and the Service has no selector
	kindSome       = "SomeLackPort"
	kindUDP        = "SilentUDP"
	kindShare      = "CounterShare"
)

// Reasons of findings about a node's own work, with those of package status.
const (
	SyncFails    = "SyncFails"
	Overdue      = "Overdue"
	NothingYet   = "NothingYet"
	PortsRefused = "PortsRefused"
	TableState   = "TableState" // the kind is the state
	NotFollowing = "NotFollowing"
	FastPathOff  = "FastPathOff"
	Repaired     = "Repaired"
	Unusable     = "UnusableObjects"
	Conflicts    = "Conflicts"
	Logged       = "Logged"
)

// reasons are those of all findings, with the severity; both are possible if that is empty.
var reasons = []struct{ name, text, severity string }{
	{NoEndpoints, "no pod has the labels of the selector, or no EndpointSlice has endpoints", status.SeverityProblem},
	{Refuses, "an endpoint answers with a reset: nothing listens on the target port", status.SeverityProblem},
	{NotProgrammed, "the kernel's tables do not have a port or endpoint", status.SeverityProblem},
	{model.ProblemRefused, "the kernel refuses a part of the Service", status.SeverityProblem},
	{model.ProblemConflict, "another Service holds the address and port", status.SeverityProblem},
	{model.ProblemUnusable, "a part of an object cannot be used", status.SeverityProblem},
	{model.ProblemNodePorts, "node ports do not answer where they should", status.SeverityProblem},
	{status.ReasonOtherProxy, "another proxy seems to run on the node", status.SeverityProblem},
	{status.ReasonReturned, "the take-over failed, and kube-proxy's rules serve the node again", status.SeverityProblem},
	{status.ReasonUncertain, "what the kernel holds is not known, after a failed change", status.SeverityProblem},
	{status.ReasonUnread, "something could not be read from the kernel", status.SeverityProblem},
	{reasonNode, "kube-vmap does not work as it should on a node; see its status", status.SeverityProblem},
	{status.ReasonNotCounted, "connections are not counted, so that resets are not known; the exit code is 2", ""},
	{NotReady, "endpoints are not ready; a problem if that is all of them", ""},
	{Fallback, "no endpoint is ready, so that terminating ones serve; a notice if on one node", ""},
	{Drained, "endpoints have weight 0; a problem if that is all of them", ""},
	{NoPort, "endpoints lack the port (the name of targetPort); a problem if all do", ""},
	{NoneLocal, "a policy is Local, and no endpoint is on the node; a problem if internal", ""},
	{Silent, "an endpoint does not answer; a notice over UDP, where that may be right", ""},
	{LocalPolicy, "a policy is Local, so that endpoints on other nodes are not used", status.SeverityNotice},
	{Hints, "endpoints are for other zones or nodes (trafficDistribution)", status.SeverityNotice},
	{SourceRanges, "only some clients may connect", status.SeverityNotice},
	{model.ProblemOpen, "source ranges are of one family, and the other one is open", status.SeverityNotice},
	{Affinity, "each client keeps its endpoint", status.SeverityNotice},
	{Scheduler, "endpoints are not chosen at random", status.SeverityNotice},
	{Weights, "endpoints have different weights", status.SeverityNotice},
	{Busy, "endpoints get no connections for now, since others have fewer", status.SeverityNotice},
	{PublishedEarly, "endpoints get connections although they are not ready", status.SeverityNotice},
	{status.ReasonProbation, "kube-vmap has taken over from kube-proxy, and can go back", status.SeverityNotice},
	{Stale, "endpoints have connections, but serve no more", status.SeverityNotice},
}

// ReasonsHelp returns the reasons for a help text, a line for each.
func ReasonsHelp() string {
	titles := map[string]string{status.SeverityProblem: "Problem", "": "Problem or Notice",
		status.SeverityNotice: "Notice (it may be intended)"}
	var b strings.Builder
	for i, r := range reasons {
		if i == 0 || r.severity != reasons[i-1].severity {
			fmt.Fprintln(&b, titles[r.severity])
		}
		fmt.Fprintf(&b, "  %-17s%s\n", r.name, r.text)
	}
	return b.String()
}
