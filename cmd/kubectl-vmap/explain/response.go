package explain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
)

// maxProbed is how many endpoints of a way are asked, each by its node.
const maxProbed = 32

// probe lets the nodes of endpoints connect to them. Those outside the cluster are asked by the
// client's node.
func (b *builder) probe(ctx context.Context) {
	var tasks []func()
	for i := range b.report.Ways {
		w := &b.report.Ways[i]
		if b.packets[i].Protocol != model.TCP {
			continue
		}
		for k := range w.Endpoints[:min(len(w.Endpoints), maxProbed)] {
			e := &w.Endpoints[k]
			tasks = append(tasks, func() { b.probeEndpoint(ctx, e) })
		}
	}
	each(len(tasks), func(i int) { tasks[i]() })
	if slices.ContainsFunc(b.packets, func(p resolve.Packet) bool { return p.Protocol != model.TCP }) {
		b.report.Notes = append(b.report.Notes, "--probe asks over TCP only: over UDP and SCTP, endpoints were not asked")
	}
}

func (b *builder) probeEndpoint(ctx context.Context, e *Endpoint) {
	node := e.Node
	if node == "" {
		node = b.first
	}
	p := resolve.Packet{From: addr(e.Sees), Protocol: model.TCP}
	p.To, _ = netip.ParseAddrPort(e.Address)
	asked := b.ask(ctx, node, p, "--observe=0s", "--probe")
	if r := asked.response(e.Address); r != "" {
		e.Response = r
	}
}

// response returns how an endpoint responds, as a node observed; empty if it did not.
func (n *NodeAnswer) response(address string) string {
	if n == nil || n.Answer == nil {
		return ""
	}
	for _, o := range n.Answer.Outcomes {
		for _, e := range o.Endpoints {
			if netip.AddrPortFrom(addr(e.Address), e.Port).String() == address && e.Response != "" {
				return e.Response
			}
		}
	}
	return ""
}

// setResponses sets how endpoints respond: what their nodes and the client's have seen. An
// endpoint that refuses connections is known to do so by one of them.
func (b *builder) setResponses(w *Way) {
	refused, silent := b.failing(w)
	for i := range w.Endpoints {
		e := &w.Endpoints[i]
		there := e.There.response(e.Address)
		switch {
		case b.Probe && w.Protocol == model.TCP.String() && e.Response != "":
		case refused[e.Address], there == answer.Refuses:
			e.Response = answer.Refuses
		case e.Response == "" && there != "":
			e.Response = there
		case e.Response == "" && silent[e.Address]:
			e.Response = answer.Silent
		}
		w.responses.Add(e.Response)
	}
	if w.Client.Answer != nil {
		w.responses.All += w.unseen()
	}
	w.Answers = w.responses.Answers()
}

// failing returns the endpoints that the client's node saw refuse connections, or not answer,
// while it observed. Over UDP, silence may be right.
func (b *builder) failing(w *Way) (refused, silent map[string]bool) {
	refused, silent = map[string]bool{}, map[string]bool{}
	if b.observed == nil {
		return refused, silent
	}
	for _, s := range b.observed.Services {
		for _, p := range s.Ports {
			if !strings.EqualFold(p.Protocol, w.Protocol) {
				continue
			}
			for i := range p.Endpoints {
				e := &p.Endpoints[i]
				refused[e.At()] = refused[e.At()] || e.Refused > 0
				silent[e.At()] = silent[e.At()] || e.Unanswered > 0 && w.Protocol != model.UDP.String()
			}
		}
	}
	return refused, silent
}

// responses returns how the endpoints of all ways respond that packets arrive at.
func (r *Report) responses() (sum answer.Responses) {
	for i := range r.Ways {
		if w := &r.Ways[i]; w.Arrives == answer.Always {
			sum.All += w.responses.All
			sum.Answer += w.responses.Answer
			sum.Refuse += w.responses.Refuse
			sum.Silent += w.responses.Silent
		}
	}
	return sum
}

// responseText returns the verdict on a way by which packets arrive, if not all endpoints
// answer; where names them.
func (w *Way) responseText(where string) string {
	r := &w.responses
	switch {
	case r.Refuse == r.All && r.All == 1:
		return "reaches " + where + ", which refuses connections"
	case r.Refuse == r.All:
		return fmt.Sprintf("reaches any of %d endpoints, all of which refuse connections", r.All)
	}
	text := r.Text()
	if r.All == 1 {
		text = "the rules lead to " + where + r.Observed()
	}
	return text + answer.ProbeHint(*r, w.Protocol)
}
