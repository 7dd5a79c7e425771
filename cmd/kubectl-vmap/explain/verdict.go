package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/nft/foreign/simulate/path"
)

func (b *builder) setVerdict(w *Way) {
	a := w.Client.Answer
	switch {
	case a == nil:
		w.Arrives, w.Verdict = answer.Unknown, "not known: node "+w.Client.Node+" does not answer"
		return
	case b.isUntranslated(w):
		w.Arrives, w.Endpoints = answer.Never, nil
		w.Verdict = fmt.Sprintf("does not arrive: node %s does not have %s/%s of %s, and leaves the packet as it is",
			w.Client.Node, w.To, w.Protocol, b.destination)
		return
	}
	b.setArrivals(w)
	var ways []string
	for i := range a.Outcomes {
		switch o := &a.Outcomes[i]; {
		case o.Verdict == path.VerdictUnknown:
			ways = append(ways, answer.Unknown)
		case !o.Arrives():
			ways = append(ways, answer.Never)
		}
	}
	for _, e := range w.Endpoints {
		ways = append(ways, e.Arrives)
	}
	w.Arrives = answer.Either(ways...)
	if a.Arrives == answer.Never || a.Arrives == answer.Unknown {
		w.Arrives = a.Arrives
	}
	if w.Verdict = w.verdict(); w.holder != "" {
		w.Arrives, w.Verdict = answer.Never, fmt.Sprintf("does not arrive at %s: %s", b.destination, w.conflict())
	}
}

// conflict returns "203.0.113.1:80 belongs to service shop/older (its ExternalIP)".
func (w *Way) conflict() string {
	return fmt.Sprintf("%s belongs to service %s (its %s)", w.To, w.holder, w.Kind)
}

// isUntranslated reports whether the client's node does not translate a packet to an address and
// port of the Service.
func (b *builder) isUntranslated(w *Way) bool {
	list := w.Client.Answer.Outcomes
	return b.destination.Service != nil && len(list) == 1 && list[0].Verdict == path.VerdictNotService &&
		!slices.ContainsFunc(list[0].Endpoints, func(e path.Endpoint) bool { return e.At() != w.To })
}

// setArrivals sets whether the packet arrives at each endpoint and the reply at the
// client, by the answers of the client's node and of the endpoint's, and why not.
func (b *builder) setArrivals(w *Way) {
	isOfService := b.destination.Service != nil && w.holder == ""
	known := map[netip.AddrPort]bool{}
	if isOfService {
		for k := range sliceEndpoints(b.slices, b.destination.Service) {
			known[k.at] = true
		}
	}
	for i := range w.Endpoints {
		e := &w.Endpoints[i]
		e.Arrives, e.Why = e.arrivesThere()
		back := answer.ReplyArrives(e.Reply)
		switch {
		case e.Arrives != answer.Always:
		case back != answer.Always:
			e.Why = "on node " + w.Client.Node + ": " + w.Client.Answer.ReplyText(&e.Endpoint, e.masquerade)
		case isOfService && !known[e.AddrPort()]:
			e.Arrives, e.Why = answer.Unknown, "no EndpointSlice has this endpoint, so its pod may be gone"+w.sentBy(e.At())
		}
		e.Arrives = answer.InTurn(e.Arrives, back)
	}
}

// sentBy returns the rule that sends the packet to an endpoint: a rule of another program explains
// why an endpoint is not the Service's.
func (w *Way) sentBy(address string) string {
	for _, s := range w.Client.Answer.Steps {
		if s.To == address {
			return fmt.Sprintf("; table %s, chain %s, rule handle %d of node %s sends packets there", s.Table, s.Chain, s.Rule,
				w.Client.Node)
		}
	}
	return ""
}

// arrivesThere returns whether the packet arrives on the node of the endpoint, and the reply
// leaves it, and why not.
func (e *Endpoint) arrivesThere() (arrives, why string) {
	switch {
	case e.node == nil:
		return answer.Always, ""
	case e.node.Answer == nil:
		return answer.Unknown, "node " + e.On + " does not answer"
	case e.node.Answer.Arrives == answer.Always:
		return answer.Always, ""
	}
	return e.node.Answer.Arrives, "on node " + e.On + ": " + failure(e.node.Answer)
}

// failure returns why a packet does not always arrive, by the answer of one node.
func failure(a *answer.Answer) string {
	var worst *path.Outcome
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		if !o.Arrives() && (worst == nil || o.Probability > worst.Probability) {
			worst = o
		}
	}
	switch {
	case worst != nil && len(a.Outcomes) > 1:
		return fmt.Sprintf("%.4g%% %s", worst.Probability*100, a.Sentence(worst))
	case worst != nil:
		return a.Sentence(worst)
	case lostReply(a) != "":
		return lostReply(a)
	case a.Connection != nil && a.Connection.Stale:
		return "it belongs to a connection to " + a.Connection.Endpoint + ", where no new connection would go"
	case len(a.Doubts) > 0:
		return a.Doubts[0]
	case len(a.NotFollowed) > 0:
		return "rules of iptables-legacy were not followed: " + strings.Join(a.NotFollowed, ", ")
	}
	return uncertain
}

const uncertain = "this is not certain"

// lostReply returns why a reply does not reach the client, by the answer of one node; empty
// if all do.
func lostReply(a *answer.Answer) string {
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		for k := range o.Endpoints {
			if e := &o.Endpoints[k]; answer.ReplyArrives(e.Reply) != answer.Always {
				return a.ReplyText(e, o.Masquerade)
			}
		}
	}
	return ""
}

// verdict returns the verdict in words. A reply is not known that an older node did not simulate.
func (w *Way) verdict() string {
	if w.Arrives != answer.Always {
		return answer.ArrivalText(w.Arrives) + ": " + w.why()
	}
	where, reply := "the destination", ", and the reply reaches the client"
	if n := len(w.Endpoints); n > 1 {
		where = fmt.Sprintf("any of %d endpoints", n+w.unseen())
	} else if n == 1 {
		where = w.Endpoints[0].title()
	}
	if slices.ContainsFunc(w.Endpoints, func(e Endpoint) bool { return e.Reply.Verdict == "" }) {
		reply = "; the reply is not known"
	}
	r := &w.responses
	switch {
	case w.Answers == answer.Always, w.Answers == "":
		return "arrives at " + where + reply
	case r.All == 1:
		return "the rules send packets to " + where + r.Observed() + answer.ProbeHint(*r, w.Protocol)
	}
	return r.Text() + answer.ProbeHint(*r, w.Protocol)
}

func (w *Way) unseen() int {
	if a := w.Client.Answer; a != nil {
		return a.Unseen.Endpoints
	}
	return 0
}

// why returns where and why the packet does not always arrive.
func (w *Way) why() string {
	var failed []string
	why, probability := "", 0.0
	for _, e := range w.Endpoints {
		if e.Arrives != answer.Always {
			failed, probability = append(failed, e.title()), probability+e.Probability
			why = cmp.Or(why, e.Why)
		}
	}
	switch {
	case len(failed) == 0:
		return "on node " + w.Client.Node + ": " + failure(w.Client.Answer)
	case why == "":
		return uncertain
	case len(failed) == len(w.Endpoints):
		return why
	}
	named := strings.Join(failed[:min(len(failed), maxNamed)], ", ")
	return fmt.Sprintf("%.4g%% goes to %s: %s", probability*100, named, why)
}

// maxNamed is how many things of a kind are named in one sentence.
const maxNamed = 3
