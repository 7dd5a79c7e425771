package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain/answer"
)

// setVerdict sets whether a packet arrives, and the verdict.
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
		case o.Verdict == answer.VerdictUnknown:
			ways = append(ways, answer.Unknown)
		case !o.Arrives():
			ways = append(ways, answer.Never)
		}
	}
	for _, e := range w.Endpoints {
		ways = append(ways, e.Arrives)
	}
	w.Arrives = either(ways...)
	if a.Arrives == answer.Never || a.Arrives == answer.Unknown {
		w.Arrives = a.Arrives
	}
	if w.Verdict = w.verdict(); w.conflict != nil {
		w.Arrives, w.Verdict = answer.Never, fmt.Sprintf("does not arrive at %s: %s", b.destination, w.conflict)
	}
}

// isUntranslated reports whether the client's node does not translate a packet to an address and
// port of the Service.
func (b *builder) isUntranslated(w *Way) bool {
	a := w.Client.Answer
	if b.destination.Service == nil || len(a.Outcomes) != 1 || a.Outcomes[0].Verdict != answer.VerdictNotService ||
		a.Outcomes[0].How != "" {
		return false
	}
	return !slices.ContainsFunc(a.Outcomes[0].Endpoints, func(e answer.Endpoint) bool {
		return netip.AddrPortFrom(addr(e.Address), e.Port).String() != w.To
	})
}

// setArrivals sets whether the packet arrives at each endpoint and the reply at the
// client, by the answers of the client's node and of the endpoint's, and why not.
func (b *builder) setArrivals(w *Way) {
	followed := map[string]*Endpoint{}
	for i := range w.Endpoints {
		if e := &w.Endpoints[i]; e.There != nil {
			followed[e.Address] = e
		}
	}
	isOfService := b.destination.Service != nil && w.conflict == nil
	known := map[string]bool{} // the Service's endpoints in EndpointSlices
	if isOfService {
		for k := range sliceEndpoints(b.slices, b.destination.Service) {
			known[k.at.String()] = true
		}
	}
	for i := range w.Endpoints {
		e := &w.Endpoints[i]
		e.Arrives, e.Why = e.there()
		if like := followed[e.Like]; like != nil {
			e.Arrives, e.Why = like.there()
		}
		if e.Arrives == answer.Always && isOfService && !known[e.Address] {
			e.Arrives, e.Why = answer.Unknown, "no EndpointSlice has this endpoint, so its pod may be gone"+w.sentBy(e.Address)
		}
		back := e.back()
		if e.Arrives == answer.Always && back != answer.Always {
			e.Why = "on node " + w.Client.Node + ": " + named(w.replyText(e), w.Client.Node)
		}
		e.Arrives = inTurn(e.Arrives, back)
	}
}

// sentBy returns the rule that sends the packet to an endpoint: that of another program explains
// why an endpoint is not the Service's.
func (w *Way) sentBy(address string) string {
	for _, s := range w.Client.Answer.Steps {
		if strings.HasSuffix(s.Text, "goes to "+address) {
			return fmt.Sprintf("; table %s, chain %s, rule handle %d of node %s sends packets there", s.Table, s.Chain, s.Rule,
				w.Client.Node)
		}
	}
	return ""
}

// there returns whether the packet arrives on the node of the endpoint, and the reply leaves
// it.
func (e *Endpoint) there() (arrives, why string) {
	switch {
	case e.There == nil:
		return answer.Always, ""
	case e.There.Answer == nil:
		return answer.Unknown, "node " + e.Node + " does not answer"
	case e.There.Answer.Arrives == answer.Always:
		return answer.Always, ""
	}
	return e.There.Answer.Arrives, "on node " + e.Node + ": " + named(failure(e.There.Answer), e.Node)
}

// back returns whether the client gets the reply, as far as the client's node decides.
func (e *Endpoint) back() string {
	switch {
	case e.Reply == nil, e.Reply.Verdict == answer.ReplyDelivered:
		return answer.Always
	case e.Reply.Verdict == answer.ReplyUnknown:
		return answer.Unknown
	}
	return answer.Never
}

// replyText returns what the client's node reports about the reply of an endpoint; empty if
// nothing.
func (w *Way) replyText(e *Endpoint) string {
	for i := range w.Client.Answer.Outcomes {
		o := &w.Client.Answer.Outcomes[i]
		for k := range o.Endpoints {
			if o.Endpoints[k].Reply == e.Reply && e.Reply != nil {
				return o.Endpoints[k].ReplyText(w.Client.Answer, o.Masquerade)
			}
		}
	}
	return ""
}

// failure returns why a packet does not always arrive, by the answer of one node.
func failure(a *answer.Answer) string {
	var worst *answer.Outcome
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
	return "this is not certain"
}

// lostReply returns why a reply does not reach the client, by the answer of one node; empty
// if all do.
func lostReply(a *answer.Answer) string {
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		for k := range o.Endpoints {
			if e := &o.Endpoints[k]; e.Reply != nil && e.Reply.Verdict != answer.ReplyDelivered {
				return e.ReplyText(a, o.Masquerade)
			}
		}
	}
	return ""
}

// verdict returns the verdict in words.
func (w *Way) verdict() string {
	where := "the destination"
	switch n := len(w.Endpoints); {
	case n == 1:
		where = w.Endpoints[0].title()
	case n > 1:
		where = fmt.Sprintf("any of %d endpoints", n+w.unseen())
	}
	switch {
	case w.Arrives != answer.Always:
	case w.Answers == answer.Always, w.Answers == "":
		return "arrives at " + where + w.replied()
	default:
		return w.responseText(where)
	}
	return arrivalTexts[w.Arrives] + ": " + w.why()
}

// arrivalTexts are the values of Arrives in words.
var arrivalTexts = map[string]string{
	answer.Always: "arrives", answer.Never: "does not arrive", answer.Sometimes: "does not always arrive",
	answer.Unknown: "not certain",
}

// replied adds that replies arrive, too, unless older nodes do not simulate them.
func (w *Way) replied() string {
	var old []string
	for _, n := range w.answers() {
		for _, o := range n.Answer.Outcomes {
			if !slices.Contains(old, n.Node) && slices.ContainsFunc(o.Endpoints,
				func(e answer.Endpoint) bool { return e.Reply == nil }) {
				old = append(old, n.Node)
			}
		}
	}
	if len(old) == 0 {
		return ", and the reply reaches the client"
	}
	return "; the reply is not known on " + strings.Join(old, ", ")
}

func (w *Way) unseen() int {
	if u := w.Client.Answer.Unseen; u != nil {
		return u.Endpoints
	}
	return 0
}

// why returns where and why the packet does not always arrive.
func (w *Way) why() string {
	a := w.Client.Answer
	var failed []string
	probability := 0.0
	for _, e := range w.Endpoints {
		if e.Arrives != answer.Always {
			failed, probability = append(failed, e.title()), probability+e.Probability
		}
	}
	if len(failed) == 0 || a.Arrives != answer.Always && len(w.Endpoints) == 0 {
		return "on node " + w.Client.Node + ": " + named(failure(a), w.Client.Node)
	}
	for _, e := range w.Endpoints {
		if e.Why != "" && len(failed) == len(w.Endpoints) {
			return e.Why
		} else if e.Why != "" {
			return fmt.Sprintf("%.4g%% goes to %s: %s", probability*100,
				strings.Join(failed[:min(len(failed), maxNamed)], ", "), e.Why)
		}
	}
	return "this is not certain"
}

// maxNamed is how many things of a kind are named in one sentence.
const maxNamed = 3

// ranks order whether packets arrive, the worst last.
var ranks = map[string]int{answer.Always: 0, answer.Sometimes: 1, answer.Unknown: 2, answer.Never: 3}

// inTurn returns whether a packet arrives that must pass several places one after another.
func inTurn(values ...string) string {
	return slices.MaxFunc(append(values, answer.Always), func(a, b string) int { return ranks[a] - ranks[b] })
}

// either returns whether a packet arrives that takes one of several ways. If it arrives on
// some and not on others, the unknown ones do not matter.
func either(values ...string) string {
	has := map[string]bool{}
	for _, v := range values {
		has[v] = true
	}
	switch {
	case has[answer.Sometimes], has[answer.Always] && has[answer.Never]:
		return answer.Sometimes
	case has[answer.Unknown]:
		return answer.Unknown
	case has[answer.Always]:
		return answer.Always
	}
	return answer.Never
}
