package passivehealth

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// Reasons of events about Services and, if all endpoints of a node do not answer, about the node.
const (
	ReasonNotAnswering = model.ProblemEndpointNotAnswering
	ReasonAnswers      = "EndpointAnswersAgain"
	ReasonNodeSilent   = model.ProblemNodeNotAnswering
	ReasonNodeAnswers  = "NodeAnswersAgain"
)

// maxServices is how many Services of an endpoint get an event.
const maxServices = 10

// A Report is what a [Tracker] knows at one moment.
type Report struct {
	Endpoints []Unresponsive // in the order of their addresses
	Nodes     []SilentNode   // in the order of their names
	// CutOff reports that most of the other nodes that were asked do not answer this one.
	CutOff bool
}

// Unresponsive is an endpoint that does not answer, by itself and not because its node does not.
type Unresponsive struct {
	Protocol model.Protocol
	Endpoint netip.AddrPort
	Node     string // where it runs; empty if unknown
	// Services are those that have the endpoint.
	Services []sync.Object
	Since    time.Time
	// Connections wait for an answer, and Questions were not answered.
	Connections, Questions int
}

// A SilentNode is a node that does not answer, so that its endpoints are unresponsive together.
type SilentNode struct {
	Name      string
	Since     time.Time
	Endpoints []netip.Addr // sorted
}

// Report returns what is known now.
func (t *Tracker) Report(ctx context.Context) (Report, error) {
	return sync.CallOn(ctx, t.requests, t.ended, t.currentReport)
}

func (t *Tracker) currentReport() (r Report) {
	r.CutOff = t.CutOff()
	for _, c := range t.checks.all {
		if c.phase == phaseUnresponsive {
			r.Endpoints = append(r.Endpoints, Unresponsive{
				Protocol: c.protocol, Endpoint: c.addr, Node: c.node, Services: c.services(),
				Since: c.began, Connections: c.connections, Questions: c.silent,
			})
		}
	}
	slices.SortFunc(r.Endpoints, func(a, b Unresponsive) int { return a.Endpoint.Compare(b.Endpoint) })
	for _, n := range t.silentNodes() {
		all := slices.SortedFunc(slices.Values(n.addrs.UnsortedList()), netip.Addr.Compare)
		r.Nodes = append(r.Nodes, SilentNode{n.name, n.began, all})
	}
	slices.SortFunc(r.Nodes, func(a, b SilentNode) int { return strings.Compare(a.Name, b.Name) })
	return r
}

// avoided reports whether a Service avoids the endpoint.
func (c *check) avoided() bool {
	return slices.ContainsFunc(c.pools, func(p *pool) bool { return p.mode == model.PassiveChecksAvoid })
}

// Totals returns how many endpoints of Service ports do not answer now, how many questions were
// asked, and how often an endpoint or a node stopped to answer or answered again. It may be called at
// any time.
func (t *Tracker) Totals() (notAnswering, questions, changes int64) {
	return t.notAnswering.Load(), t.questions.Load(), t.changes.Load()
}

// CutOff reports whether most other nodes that were asked do not answer this one. It may be called
// at any time.
func (t *Tracker) CutOff() bool { return t.cutOff.Load() }

// reportChange reports that an endpoint does not answer, or answers again, within the limits of
// the namespaces.
func (t *Tracker) reportChange(c *check) {
	t.changes.Add(1)
	services := c.services()
	notify := func(reason, note string) (log *slog.Logger) {
		for _, o := range services[:min(len(services), maxServices)] {
			log = t.notices.Notify(o, reason, note)
		}
		return log.With("endpoint", c.addr.String(), "protocol", c.protocol.String(),
			"service", services[0].Namespace+"/"+services[0].Name)
	}
	if c.phase != phaseUnresponsive {
		note := fmt.Sprintf("endpoint %s/%s is used again by node %s", c.addr, c.protocol, t.NodeName)
		notify(ReasonAnswers, note).Info("endpoint used again")
		return
	}
	note := fmt.Sprintf("endpoint %s/%s does not answer node %s: no answer to %d connections and %d questions",
		c.addr, c.protocol, t.NodeName, c.connections, c.silent)
	if c.avoided() {
		note += "; new connections avoid it as far as the Service has others"
	}
	notify(ReasonNotAnswering, note).Warn("endpoint does not answer",
		"node", c.node, "connections", c.connections, "questions", c.silent)
}

// reportNode reports that a node does not answer, or answers again.
func (t *Tracker) reportNode(n *node) {
	t.changes.Add(1)
	reason, note := ReasonNodeAnswers, "node "+n.name+" answers node "+t.NodeName+" again"
	if n.silent && n.unanswered {
		reason = ReasonNodeSilent
		note = fmt.Sprintf("node %s and its endpoints do not answer node %s", n.name, t.NodeName)
		t.Log.Warn("node and its endpoints do not answer", "node", n.name, "endpoints", n.addrs.Len())
	} else {
		t.Log.Info("node answers again", "node", n.name)
	}
	if t.Recorder != nil {
		t.Recorder.Warn(sync.Object{Kind: "Node", Name: n.name}, reason, note)
	}
}
