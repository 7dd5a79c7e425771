package findings

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/model"
)

// maxNamed is how many addresses a text names.
const maxNamed = 4

// of returns "2 of 3 endpoints".
func (d *draft) of() string {
	if d.all == 1 {
		return "the only endpoint"
	}
	return fmt.Sprintf("%d of %d endpoints", d.hit, d.all)
}

// named returns the endpoints that of counts, after a colon: those of one family, since a pod
// has an address of each.
func (d *draft) named() string {
	var list []string
	for _, e := range d.shown[:min(len(d.shown), maxNamed)] {
		list = append(list, e.At())
	}
	return ": " + some(list, len(d.shown))
}

// some returns the first of a list, and how many more there are of n.
func some(list []string, n int) string { return status.JoinFirst(list, n, maxNamed) }

// verb returns the form for the endpoints concerned.
func (d *draft) verb(one, many string) string {
	if d.all == 1 || d.hit == 1 {
		return one
	}
	return many
}

// refusal is the consequence where nothing serves.
func (d *draft) refusal() string {
	if d.Severity == status.SeverityProblem {
		return ", so that every connection is refused"
	}
	return ""
}

func textMissing(*draft) string { return "the kernel's tables do not have the port" }

// textNoEndpoints names the family if the Service has endpoints of the other one.
func textNoEndpoints(families int) func(*draft) string {
	return func(d *draft) string {
		one := ""
		if len(d.Families) < families {
			one = d.Families[0] + " "
		}
		why := "the selector matches no pod with an " + one + "address"
		if d.Field != FieldSelector {
			why = "the Service has no selector, and no EndpointSlice with its name has " + one + "endpoints"
		}
		return fmt.Sprintf("no %sendpoint in any EndpointSlice, so that every %sconnection is refused: %s", one, one, why)
	}
}

func textSources(d *draft) string {
	who := "only " + some(d.sources, len(d.sources)) + " may"
	if len(d.sources) == 0 {
		who = "no client of " + strings.Join(d.Families, " and ") + " may"
	}
	return who + " connect to " + some(d.Frontends, len(d.Frontends)) + ", others are dropped"
}

func textLocal(internal bool) func(*draft) string {
	who := "clients outside the cluster get only the endpoints of the node that they connect to"
	if internal {
		who = "clients on this node get only the endpoints of their node"
	}
	return func(d *draft) string {
		return fmt.Sprintf("%s: %d of %d", who, d.hit, d.all)
	}
}

func textNoneLocal(internal bool) func(*draft) string {
	who := "connections from outside the cluster to this node are dropped"
	if internal {
		who = "connections of clients on this node are dropped"
	}
	return func(d *draft) string {
		if d.all == 1 {
			return who + ": the only endpoint that serves is on another node"
		}
		return fmt.Sprintf("%s: all %d endpoints that serve are on other nodes", who, d.all)
	}
}

func textAffinity(seconds int) func(*draft) string {
	return func(*draft) string {
		return fmt.Sprintf("each client keeps its endpoint for %s after its last new connection", time.Duration(seconds)*time.Second)
	}
}

// schedulerTexts describe the schedulers.
var schedulerTexts = map[string]string{
	model.SchedulerSourceHash.String():       "each client gets the endpoint that its address leads to",
	model.SchedulerMaglev.String():           "each client gets the endpoint that its address leads to",
	model.SchedulerLeastConnections.String(): "endpoints with fewer connections get more new ones",
}

func textScheduler(name string) func(*draft) string {
	return func(*draft) string { return schedulerTexts[name] }
}

func textWeights(d *draft) string {
	return fmt.Sprintf("the %d endpoints have different weights", d.hit)
}

func textNotReady(d *draft) string {
	return d.of() + d.verb(" is", " are") + " not ready" + d.refusal() + d.named()
}

func textDrained(d *draft) string {
	return d.of() + d.verb(" has", " have") + " weight 0" + d.refusal() + d.named()
}

func textHints(kind string) func(*draft) string {
	return func(d *draft) string {
		return d.of() + d.verb(" gets", " get") + " no connections from this node, because hints assign " + d.verb("it", "them") +
			" to other " + kind + d.named()
	}
}

func textNotProgrammed(d *draft) string {
	return "the kernel's tables do not have " + d.of() + d.named()
}

func textBusy(d *draft) string {
	return d.of() + d.verb(" gets", " get") + " no new connections for now, because others have fewer" + d.named()
}

func textNoPort(d *draft) string {
	return d.of() + d.verb(" does", " do") + " not have the port" + d.named()
}

func textStale(d *draft) string {
	return fmt.Sprintf("open connections, %d, to endpoints that get no new ones any more: %s", d.count, some(d.Endpoints, len(d.addresses)))
}

func textFallback(d *draft) string {
	return "no endpoint that may be used is ready, so that terminating ones serve" + d.named()
}

func textLocalFallback(d *draft) string {
	return "no endpoint of this node is ready, so that terminating ones serve where the policy is Local" + d.named()
}

func textEarly(d *draft) string {
	return d.of() + d.verb(" gets", " get") + " connections although " + d.verb("its pod is", "their pods are") + " not ready" + d.named()
}

func textRefuses(port uint16) func(*draft) string {
	return func(d *draft) string {
		return fmt.Sprintf("%s %s with a reset, %s within the observation: no program listens on port %d there, or a network policy rejects%s",
			d.of(), d.verb("answers", "answer"), times(d.count), port, d.named())
	}
}

func textSilent(d *draft) string {
	return fmt.Sprintf("%s %s not answer, %s waiting: the pod or its node is gone, or a network policy or firewall drops%s",
		d.of(), d.verb("does", "do"), status.Plural(d.count, "connection"), d.named())
}

func textSilentUDP(port uint16) func(*draft) string {
	return func(d *draft) string {
		return fmt.Sprintf("%s %s not answer, %s: no program listens on port %d there, something drops, or the protocol has no answers%s",
			d.of(), d.verb("does", "do"), status.Plural(d.count, "connection"), port, d.named())
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// moreEndpoints is the end of a text that does not name all endpoints, by [status.JoinFirst].
var moreEndpoints = regexp.MustCompile(` and (\d+) more$`)

// RenameEndpoints returns a text that ends with endpoints, with other names for them. Those
// with the same name are named once; those without one only if the text has them.
func RenameEndpoints(text string, endpoints []string, name func(endpoint string) string) string {
	for _, first := range endpoints {
		before, rest, found := strings.Cut(text, ": "+first)
		if !found {
			continue
		}
		rest = first + rest
		all := 0
		if m := moreEndpoints.FindStringSubmatch(rest); m != nil {
			more, _ := strconv.Atoi(m[1])
			all = maxNamed + more
		}
		var names []string
		for _, e := range endpoints {
			n := name(e)
			if n == "" && strings.Contains(rest, e) {
				n = e
			}
			if n != "" {
				names = once(names, n)
			}
		}
		return before + ": " + some(names, max(all, len(names)))
	}
	return text
}
