package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/conntrack"
)

// eachDestination calls fn for the endpoints that the packet may reach, with their addresses.
func eachDestination(a *answer.Answer, fn func(e *answer.Endpoint, at netip.AddrPort)) {
	for i := range a.Outcomes {
		if !a.Outcomes[i].Arrives() {
			continue
		}
		for k := range a.Outcomes[i].Endpoints {
			e := &a.Outcomes[i].Endpoints[k]
			if addr, err := netip.ParseAddr(e.Address); err == nil {
				fn(e, netip.AddrPortFrom(addr, e.Port))
			}
		}
	}
}

// observe sets how endpoints respond, by what the kernel tracks now and by what the running
// process observed: d, which may be nil.
func observe(a *answer.Answer, p model.Protocol, d *nodestatus.Document) error {
	answered, err := conntrack.New(conntrack.Config{}).Answering(p)
	if err != nil {
		return err
	}
	observed := answer.Observed(d, p.String())
	eachDestination(a, func(e *answer.Endpoint, at netip.AddrPort) {
		e.Response = response(observed[at.String()], answered[at])
	})
	return nil
}

// response returns how an endpoint responds that may have answered a connection which is still
// tracked. That may be long ago: a refusal is newer, and beside silence both are possible.
func response(observed string, answered bool) string {
	switch {
	case !answered || observed == answer.Refuses:
		return observed
	case observed == answer.Silent:
		return ""
	}
	return answer.Responds
}

const (
	// probeTimeout is long enough for a first packet that is sent again once.
	probeTimeout = 3 * time.Second
	// maxProbed is how many endpoints are asked.
	maxProbed = 32
)

// probe asks endpoints whether they answer, from this node, each by one connect of TCP.
func probe(ctx context.Context, a *answer.Answer, p simulate.Packet) {
	if p.Protocol != model.TCP {
		a.Hints = append(a.Hints, "--probe asked no endpoint: only over TCP is it certain what an answer or its absence "+
			"means")
		return
	}
	var g errgroup.Group
	asked := 0
	eachDestination(a, func(e *answer.Endpoint, at netip.AddrPort) {
		if asked++; asked > maxProbed {
			return
		}
		g.Go(func() error { e.Response = connect(ctx, at); return nil })
	})
	_ = g.Wait() // the functions return no errors
}

func connect(ctx context.Context, at netip.AddrPort) string {
	c, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, "tcp", at.String())
	switch {
	case err == nil:
		_ = c.Close() // it has answered
		return answer.Responds
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return answer.Refuses
	case ctx.Err() != nil, errors.Is(err, syscall.EMFILE):
		return "" // it was not asked to the end
	}
	return answer.Silent
}

// locate sets Elsewhere if the client is on another node. d is from the running process,
// nil if it does not answer. Each node translates the connections of its own pods and
// programs, so the rules of this one are not the first for such a packet.
//
// The kernel's routes show that: to a pod of this node they lead over a link, without a
// next hop. An address on a link outside the ranges of pods is another host.
func locate(a *answer.Answer, w simulate.Result, d *nodestatus.Document) {
	if w.In == "" || w.ToNode && (a.Service == "" || a.Kind == model.KindNodePort.String()) {
		return // this node sends the packet, or no other node translates it
	}
	from := w.Packet.From
	inRange, known := isPod(d, from)
	nodes := endpointNodes(d)
	e := &answer.Elsewhere{Node: nodes[from.String()], Pod: inRange && w.ClientVia.IsValid()}
	switch {
	case e.Node != "" && e.Node == d.Node:
		return
	case e.Node != "":
		e.Pod = true
	case !w.ClientVia.IsValid() && (inRange || !known):
		return
	}
	if w.ClientVia.IsValid() {
		e.Via = w.ClientVia.String()
	}
	question := fmt.Sprintf("explain --from '%s' --to '%s/%s'", a.From, a.To, a.Protocol)
	e.Ask = []string{"kubectl vmap " + question, "kube-vmap " + question}
	a.Elsewhere = e
	if d != nil {
		bypassReplies(a, from, d.Node, nodes)
	}
	if e.Pod && a.Service != "" && a.Connection == nil && len(a.Connections) == 0 {
		a.Arrives = answer.Unknown
	}
}

// bypassReplies corrects replies from endpoints on other nodes to a client that is not on this
// node either, and keeps its address. Neither has a reason to send to the other by way of this
// node, also where its routes do not show it: to pods of other nodes by a tunnel, to the client
// by its own link.
func bypassReplies(a *answer.Answer, from netip.Addr, thisNode string, nodes map[string]string) {
	changed := false
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		for j := range o.Endpoints {
			e := &o.Endpoints[j]
			if e.Sees != from.String() || e.Node || e.Reply == nil || e.Reply.Bypasses {
				continue
			}
			if node := nodes[e.Address]; node != "" && node != thisNode {
				e.BypassThisNode(a.To)
				changed = true
			}
		}
	}
	if changed {
		a.Arrives = a.Arrival()
	}
}

func isPod(d *nodestatus.Document, a netip.Addr) (is, known bool) {
	if d == nil {
		return false, false
	}
	for _, text := range d.PodRanges {
		if r, err := netip.ParsePrefix(text); err == nil && model.FamilyOf(r.Addr()) == model.FamilyOf(a) {
			is, known = is || r.Contains(a), true
		}
	}
	return is, known
}

// endpointNodes returns the nodes of addresses; a port that is gone has none.
func endpointNodes(d *nodestatus.Document) map[string]string {
	nodes := map[string]string{}
	for _, port := range d.EachPort() {
		for _, e := range port.Endpoints {
			nodes[e.Address] = cmp.Or(nodes[e.Address], e.Node)
		}
	}
	return nodes
}
