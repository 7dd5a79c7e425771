package findings

import (
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

// Reasons of findings about a node's own work, with those of package nodestatus.
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
	{NoEndpoints, "no pod has the labels of the selector, or no EndpointSlice has endpoints", nodestatus.SeverityProblem},
	{Refuses, "an endpoint answers with a reset: nothing listens on the target port", nodestatus.SeverityProblem},
	{NotProgrammed, "the kernel's tables do not have a port or endpoint", nodestatus.SeverityProblem},
	{model.ProblemRefused, "the kernel refuses a part of the Service", nodestatus.SeverityProblem},
	{model.ProblemConflict, "another Service holds the address and port", nodestatus.SeverityProblem},
	{model.ProblemUnusable, "a part of an object cannot be used", nodestatus.SeverityProblem},
	{model.ProblemNodePorts, "node ports do not answer where they should", nodestatus.SeverityProblem},
	{nodestatus.ReasonOtherProxy, "another proxy seems to run on the node", nodestatus.SeverityProblem},
	{
		nodestatus.ReasonReturned, "the take-over failed, and kube-proxy's rules serve the node again",
		nodestatus.SeverityProblem,
	},
	{nodestatus.ReasonUncertain, "what the kernel holds is not known, after a failed change", nodestatus.SeverityProblem},
	{nodestatus.ReasonUnread, "something could not be read from the kernel", nodestatus.SeverityProblem},
	{reasonNode, "kube-vmap does not work as it should on a node; see its status", nodestatus.SeverityProblem},
	{nodestatus.ReasonNotCounted, "connections are not counted, so that resets are not known; the exit code is 2", ""},
	{NotReady, "endpoints are not ready; a problem if that is all of them", ""},
	{Fallback, "no endpoint is ready, so that terminating ones serve; a notice if on one node", ""},
	{Drained, "endpoints have weight 0; a problem if that is all of them", ""},
	{NoPort, "endpoints lack the port (the name of targetPort); a problem if all do", ""},
	{NoneLocal, "a policy is Local, and no endpoint is on the node; a problem if internal", ""},
	{Silent, "an endpoint does not answer; a notice over UDP, where that may be right", ""},
	{LocalPolicy, "a policy is Local, so that endpoints on other nodes are not used", nodestatus.SeverityNotice},
	{Hints, "endpoints are for other zones or nodes (trafficDistribution)", nodestatus.SeverityNotice},
	{SourceRanges, "only some clients may connect", nodestatus.SeverityNotice},
	{model.ProblemOpen, "source ranges are of one family, and the other one is open", nodestatus.SeverityNotice},
	{Affinity, "each client keeps its endpoint", nodestatus.SeverityNotice},
	{Scheduler, "endpoints are not chosen at random", nodestatus.SeverityNotice},
	{Weights, "endpoints have different weights", nodestatus.SeverityNotice},
	{Busy, "endpoints get no connections for now, since others have fewer", nodestatus.SeverityNotice},
	{PublishedEarly, "endpoints get connections although they are not ready", nodestatus.SeverityNotice},
	{nodestatus.ReasonProbation, "kube-vmap has taken over from kube-proxy, and can go back", nodestatus.SeverityNotice},
	{Stale, "endpoints have connections, but serve no more", nodestatus.SeverityNotice},
}

// ReasonsHelp returns the reasons for a help text, a line for each.
func ReasonsHelp() string {
	titles := map[string]string{
		nodestatus.SeverityProblem: "Problem", "": "Problem or Notice",
		nodestatus.SeverityNotice: "Notice (it may be intended)",
	}
	var b strings.Builder
	for i, r := range reasons {
		if i == 0 || r.severity != reasons[i-1].severity {
			fmt.Fprintln(&b, titles[r.severity])
		}
		fmt.Fprintf(&b, "  %-17s%s\n", r.name, r.text)
	}
	return b.String()
}
