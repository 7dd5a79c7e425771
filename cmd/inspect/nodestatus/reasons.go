package nodestatus

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/model"
)

// A reason is a row of the table: the name, the severity, the text in the help of problems, which
// has no other reasons, the text of a state of Services, unless it is none, and the sentence; nil
// means the words of an error or of another program.
type reason struct {
	name string
	severity
	help, state string
	say         func(*sentence) string
}

func row(name string, s severity, help, state string, say func(*sentence) string) reason {
	return reason{name, s, help, state, say}
}

// reasons are all, first the states of Services, the worst first.
var reasons = []reason{
	row(model.ProblemRefused, problem, "the kernel refuses a part of the Service", "the kernel refuses a part", nil),
	row(model.ProblemMemory, problem, "the kernel has no memory for a change of the Service, which is retried",
		"the kernel has no memory for a change, which is retried", nil),
	row(model.ProblemConflict, problem, "another Service holds the address and port",
		"another Service holds an address of it", func(s *sentence) string {
			return JoinFirst(s.Names, s.Number, len(s.Names)) +
				map[bool]string{true: " is", false: " are"}[s.Number <= 1] + " held by Service " + s.Message
		}),
	row(model.ProblemUnusable, problem, "a part of an object cannot be used", "a part of it cannot be used", nil),
	row(ReasonNotProgrammed, problem, "the kernel's tables do not have a port or endpoint",
		"a port is not programmed", func(s *sentence) string {
			what := "the port"
			if s.All > 0 {
				what = s.of() + s.named()
			}
			return "the kernel's tables do not have " + what
		}),
	row(ReasonNoPort, mostlyProblem, "endpoints lack the port (the name of targetPort); a problem if all do",
		"no endpoint has a port", func(s *sentence) string {
			if s.Kind == KindSome {
				return s.of() + s.pick(" does", " do") + " not have the port" + s.named()
			}
			return fmt.Sprintf("none of its %d %sendpoints has the port %s; their EndpointSlices have %s",
				s.Hit, s.family(), s.Message, cmp.Or(strings.Join(s.Names, ", "), "none at all"))
		}),
	row(ReasonNoEndpoints, problem, "no pod has the labels of the selector, or no EndpointSlice has IP addresses",
		"a port has no endpoints: its connections are rejected", func(s *sentence) string {
			switch s.Kind {
			case KindBehind:
				return "no endpoint is known there, although other nodes know some: they may be behind the API server, " +
					"see kubectl vmap status"
			case KindNoSelector:
				return s.noEndpoint() + "the Service has no selector, and no EndpointSlice with its name has " +
					s.family() + "addresses"
			}
			return s.noEndpoint() + "the selector " + cmp.Or(s.Message, "matches no pod with an "+s.family()+"address")
		}),
	row(ReasonNotReady, mostlyProblem, "endpoints are not ready; a problem if that is all of them",
		"a port has no endpoint that is ready: its connections are rejected", func(s *sentence) string {
			return s.of() + s.pick(" is", " are") + " not ready" + s.refused() + s.named()
		}),
	row(ReasonDrained, mostlyProblem, "endpoints have weight 0; a problem if that is all of them",
		"a port has only endpoints with weight 0: its connections are rejected", func(s *sentence) string {
			return s.of() + s.pick(" has", " have") + " weight 0" + s.refused() + s.named()
		}),
	row(ReasonHeld, mostlyNotice, "connections wait for an endpoint; a problem if some do now",
		"a port has no endpoint that serves: its connections wait for one", func(s *sentence) string {
			if s.IsProblem() {
				return Plural(s.Clients, "client") + map[bool]string{true: " waits", false: " wait"}[s.Clients == 1] +
					" for an endpoint since " + s.since()
			}
			return "no endpoint that serves: connections wait for one, and are rejected when the first has waited for too long"
		}),
	row(ReasonNoneLocal, mostlyNotice, "a policy is Local, and no endpoint is on the node; a problem if internal",
		"a policy is Local, and all endpoints are on other nodes", func(s *sentence) string {
			from := "from outside the cluster to "
			if s.Field == FieldInternalLocal {
				from = "of clients on "
			}
			return s.family() + "connections " + from + s.node() + " are dropped: " + s.pick(
				"the only endpoint that serves is on another node",
				fmt.Sprintf("all %d endpoints that serve are on other nodes", s.All))
		}),
	row(ReasonRefuses, problem, "an endpoint answers with a reset: nothing listens on the target port",
		"all endpoints of a port answer with a reset: nothing listens on the target port", func(s *sentence) string {
			return s.of() + s.pick(" answers", " answer") + " with a reset" +
				s.counted(", once within the observation", ", %d times within the observation") +
				map[bool]string{true: ", and connections are retried"}[s.Kind == KindRetried] +
				fmt.Sprintf(": no program listens on port %d there, or a network policy rejects", s.Number) + s.named()
		}),
	row(model.ProblemOpen, notice, "source ranges are of one family, and the other one is open",
		"it is open to more clients than it may seem", nil),
	row(ReasonElsewhere, notice, "only other nodes serve an address, by their labels",
		"only other nodes serve it at other addresses than the ClusterIP", func(s *sentence) string {
			return "only other nodes serve " + some(s.Frontends) + ", because of the labels of " + s.node()
		}),
	row(StateOK, ok, "", "all ports are programmed", nil),
	row(StateProgrammed, ok, "", "what the kernel has of it is programmed", nil),

	row(model.ProblemEndpointUnresponsive, problem, "an endpoint replies neither to connections nor to probes",
		"", func(s *sentence) string {
			text := fmt.Sprintf("endpoint %s: no reply%s since %s%s", s.endpoint(), s.unanswered(), s.since(), s.pods())
			return text + map[string]string{
				KindAvoided: "; new connections avoid it", LastEndpoint: "; not avoided, as the last endpoint",
				MaxPercent: "; not avoided, as max-percent are",
			}[s.Kind]
		}),
	row(model.ProblemHealthCheck, problem, "the health check node port cannot be opened", "", nil),
	row(model.ProblemLocalhost, problem, "a node port cannot be opened on localhost", "", nil),
	row(model.ProblemNodePorts, problem, "node ports do not answer where they should", "", nil),
	row(model.ProblemAPIServer, problem, "kube-vmap reaches the API server through a Service", "", nil),
	row(ReasonOtherProxy, problem, "another proxy seems to run on the node", "", nil),
	row(ReasonReturned, problem, "the take-over failed, and kube-proxy's rules serve the node again", "", nil),
	row(ReasonUncertain, problem, "what the kernel holds is not known, after a failed change", "",
		func(*sentence) string {
			return "a change failed; this is the state before it, until the kernel has been read again"
		}),
	row(ReasonUnread, problem, "something could not be read from the kernel", "",
		func(s *sentence) string { return "the kernel cannot be read: " + s.Message }),
	row(ReasonNode, problem, "kube-vmap does not work as it should on a node; see its status", "", nil),
	row(ReasonNotCounted, mostlyProblem, "connections are not counted, so resets are not known; the exit code is 2",
		"", func(s *sentence) string {
			if s.Kind == KindShare {
				return "its namespace has more than its share of the connection counters: connections are not counted for " +
					"ten minutes, nor resets observed"
			}
			return "the counters of " + s.family() + "connections are full: further pairs of address " +
				"and endpoint are not counted, nor resets observed"
		}),
	row(ReasonFallback, mostlyProblem, "no endpoint is ready, so terminating ones serve; a notice if on one node",
		"", func(s *sentence) string {
			if !s.IsProblem() { // of endpoints on this node, while others are ready
				return "no endpoint of " + s.node() + " is ready, so terminating ones serve where the policy is Local" +
					s.named()
			}
			return "no endpoint that may be used is ready, so terminating ones serve" + s.named()
		}),
	row(ReasonSilent, mostlyProblem, "an endpoint does not answer; a notice over UDP, where that may be right",
		"", func(s *sentence) string {
			text := s.of() + s.pick(" does", " do") + " not answer"
			if s.Kind == KindUDP {
				return text + s.counted(", 1 connection", ", %d connections") +
					fmt.Sprintf(": no program listens on port %d there, something drops, or the protocol has no answers", s.Number) +
					s.named()
			}
			return text + s.counted(", 1 connection waiting", ", %d connections waiting") +
				": the pod or its node is gone, or a network policy or firewall drops" + s.named()
		}),
	row(ReasonLocalPolicy, notice, "a policy is Local, so endpoints on other nodes are not used",
		"", func(s *sentence) string {
			if s.Field == FieldInternalLocal {
				return fmt.Sprintf("clients on %s get only the endpoints of their node: %d of %d", s.node(), s.Hit, s.All)
			}
			return fmt.Sprintf("clients outside the cluster get only the endpoints of the node that they connect to: %d of %d",
				s.Hit, s.All)
		}),
	row(ReasonHints, notice, "endpoints are for other zones or nodes (trafficDistribution)",
		"", func(s *sentence) string {
			others := "nodes"
			if s.Kind == model.ReasonOtherZones.String() {
				others = "zones"
			}
			return s.of() + s.pick(" gets", " get") + " no connections from " + s.node() + ", because hints assign " +
				s.pick("it", "them") + " to other " + others + s.named()
		}),
	row(ReasonSourceRanges, notice, "only some clients may connect", "", func(s *sentence) string {
		if s.Kind == KindDenied {
			return "connections from " + some(s.Names) + " to " + some(s.Frontends) + " are dropped"
		}
		who := "no client of " + strings.Join(s.Families, " and ")
		if len(s.Names) > 0 {
			who = "only " + some(s.Names)
		}
		return who + " may connect to " + some(s.Frontends) + ", others are dropped"
	}),
	row(model.ProblemServiceCIDR, notice, "hosts have addresses in a ServiceCIDR", "", nil),
	row(ReasonAffinity, notice, "each client keeps its endpoint", "", func(s *sentence) string {
		return fmt.Sprintf("each client keeps its endpoint for %s after its last new connection",
			time.Duration(s.Seconds)*time.Second)
	}),
	row(ReasonScheduler, notice, "endpoints are not chosen at random", "", func(s *sentence) string {
		text := "each client gets the endpoint that its address maps to"
		if s.Kind == model.SchedulerLeastConnections.String() {
			text = "endpoints with fewer connections get more new ones"
		}
		if s.Number == 0 {
			return text
		}
		return text + ", at the " + Plural(s.Number, "port") + " of Services that do not name a scheduler"
	}),
	row(ReasonWeights, notice, "endpoints have different weights", "",
		func(s *sentence) string { return fmt.Sprintf("the %d endpoints have different weights", s.Hit) }),
	row(ReasonSlowStart, notice, "endpoints have joined others, with a part of their weights for now",
		"", func(s *sentence) string {
			return s.of() + s.pick(" has", " have") + " joined others, with a part of the weight for now" + s.named()
		}),
	row(ReasonStandBy, notice, "endpoints stand by, since others have a better priority",
		"", func(s *sentence) string {
			return s.of() + s.pick(" stands", " stand") + " by, since others have a better priority" + s.named()
		}),
	row(ReasonBusy, notice, "endpoints get no connections for now, since others have fewer",
		"", func(s *sentence) string {
			return s.of() + s.pick(" gets", " get") + " no new connections for now, because others have fewer" + s.named()
		}),
	row(ReasonPublishedEarly, notice, "endpoints get connections although they are not ready",
		"", func(s *sentence) string {
			return s.of() + s.pick(" gets", " get") + " connections although " +
				s.pick("its pod is", "their pods are") + " not ready" + s.named()
		}),
	row(ReasonProbation, notice, "kube-vmap has taken over from kube-proxy, and can go back", "", nil),
	row(model.ProblemEndpointPossiblyUnresponsive, notice,
		"clients get no reply from an endpoint, and probes do not show why",
		"", func(s *sentence) string {
			if s.Kind == KindProbesWorked {
				return "clients and probes get no reply from " + s.endpointSince() + "; no other endpoint of the Service has " +
					"replied to a probe meanwhile, so the cause may be " + s.node() + " or a policy"
			}
			waiting := "clients get"
			if s.Clients > 0 { // or nodes differ
				waiting = Plural(s.Clients, "client") + map[bool]string{true: " gets", false: " get"}[s.Clients == 1]
			}
			return waiting + " no reply from " + s.endpointSince() + "; no probe of " + s.node() +
				" is known to reach it, so whether it is unresponsive is not known"
		}),
	row(ReasonStale, notice, "endpoints have connections, but serve no more", "", func(s *sentence) string {
		return "open connections" + s.counted(", 1,", ", %d,") + " to endpoints that get no new ones" + s.named()
	}),

	row(ReasonSyncFails, problem, "", "", func(s *sentence) string {
		return "changes have not reached the kernel for " + s.ago() + ": " + s.Message
	}),
	row(ReasonOverdue, problem, "", "",
		func(s *sentence) string { return "changes have been waiting for the kernel for " + s.ago() }),
	row(ReasonNotCompared, problem, "", "", func(s *sentence) string {
		return "changes of the tables by other programs have not been repaired for " + s.ago() + ": " + s.Message
	}),
	row(ReasonNothingYet, problem, "", "", func(s *sentence) string {
		text := "nothing is programmed yet, " + s.ago() + " after the start"
		if len(s.Names) > 0 {
			text += ": no list yet of " + strings.Join(s.Names, ", ")
		}
		return text
	}),
	row(ReasonPortsRefused, problem, "", "",
		func(s *sentence) string { return "the kernel refuses " + Plural(s.Number, "Service port") }),
	row(ReasonTableState, mostlyProblem, "", "",
		func(s *sentence) string { return "the table of " + s.family() + tableStates[s.Message] }),
	row(ReasonNotFollowing, problem, "", "", func(s *sentence) string {
		return fmt.Sprintf("the API server cannot be followed for %s (%s): %s", s.ago(), strings.Join(s.Names, ", "),
			s.Message)
	}),
	row(ReasonFastPathOff, notice, "", "", func(s *sentence) string { return "the fast path is off: " + s.Message }),
	row(ReasonRepaired, notice, "", "", func(s *sentence) string {
		return fmt.Sprintf("tables that another program changed were repaired, last %s ago; %s since the start", s.ago(),
			Plural(s.Number, "time"))
	}),
	row(ReasonUnusableObjects, notice, "", "", func(s *sentence) string {
		return Plural(s.Number, "object") + " cannot be used, wholly or in part"
	}),
	row(ReasonConflicts, notice, "", "", func(s *sentence) string {
		return fmt.Sprintf("other Services hold %d of the addresses and ports of Services", s.Number)
	}),
	row(ReasonLogged, notice, "", "", func(s *sentence) string { return "logged " + s.ago() + " ago: " + s.Message }),
	row(ReasonChecksLate, notice, "", "", func(s *sentence) string {
		return "passive health checks are late: connections were last read " + s.ago() + " ago"
	}),
	row(ReasonUnresponsiveEndpoints, notice, "", "", func(s *sentence) string {
		return strconv.Itoa(s.Hit) + s.pick(" endpoint is", " endpoints are") + " unresponsive; kube-vmap problems lists them"
	}),
	row(ReasonClientsWait, notice, "", "", func(s *sentence) string {
		return "clients wait for an endpoint of " + strconv.Itoa(s.Hit) + s.pick(" Service port", " Service ports") +
			"; kube-vmap problems lists them"
	}),
	row(ReasonForwardRules, notice, "", "", nil),
}

func reasonOf(name string) *reason {
	i := slices.IndexFunc(reasons, func(r reason) bool { return r.name == name })
	if i < 0 {
		return &reason{severity: problem}
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

var tableStates = map[string]string{
	TableForeign: "belongs to another program, so nothing can be changed",
	TableDormant: "is disabled by another program, so no packet reaches it",
	TableMissing: "is missing",
	TableOpen:    "has no owner, so other programs can change it",
}
