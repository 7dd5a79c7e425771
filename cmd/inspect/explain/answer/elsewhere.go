package answer

import (
	"cmp"
	"fmt"
	"net/netip"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// locate sets Elsewhere if the client is on another node. d is from the running process,
// nil if it does not answer. Each node translates the connections of its own pods and
// programs, so the rules of this one are not the first for such a packet.
//
// The kernel's routes show that: to a pod of this node they lead over a link, without a
// next hop. An address on a link outside the ranges of pods is another host.
func (a *Answer) locate(d *nodestatus.Document) {
	if a.Interface == "" || a.ToNode && (a.Service == "" || a.Kind == model.KindNodePort.String()) {
		return // this node sends the packet, or no other node translates it
	}
	from, isLinked := a.client(), a.Via == ""
	inRange, known := isPod(d, from)
	nodes := endpointNodes(d)
	e := &Elsewhere{Node: nodes[from.String()], Pod: inRange && !isLinked, Via: a.Via}
	switch {
	case e.Node != "" && e.Node == d.Node:
		return
	case e.Node != "":
		e.Pod = true
	case isLinked && (inRange || !known):
		return
	}
	command := fmt.Sprintf("explain --from '%s' --to '%s/%s'", a.From, a.To, a.Protocol)
	e.Ask = []string{"kubectl vmap " + command, "kube-vmap " + command}
	a.Elsewhere = e
	if d != nil {
		a.bypassReplies(from, d.Node, nodes)
	}
	if e.Pod && a.Service != "" && a.Connection == nil && len(a.Connections) == 0 {
		a.Arrives = Unknown
	}
}

// bypassReplies corrects replies from endpoints on other nodes to a client that is not on this
// node either, and keeps its address. Neither has a reason to send to the other by way of this
// node, also where its routes do not show it: to pods of other nodes by a tunnel, to the client
// by its own link.
func (a *Answer) bypassReplies(from netip.Addr, thisNode string, nodes map[string]string) {
	changed := false
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		for j := range o.Endpoints {
			e := &o.Endpoints[j]
			if e.Sees != from || e.Node || e.Reply.Verdict == "" || e.Reply.Bypasses {
				continue
			}
			if node := nodes[e.Address.String()]; node != "" && node != thisNode {
				bypassThisNode(e, a.To)
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

// endpointNodes returns the nodes of addresses; a port that was removed has none.
func endpointNodes(d *nodestatus.Document) map[string]string {
	nodes := map[string]string{}
	for _, port := range d.EachPort() {
		for _, e := range port.Endpoints {
			nodes[e.Address] = cmp.Or(nodes[e.Address], e.Node)
		}
	}
	return nodes
}

// Addr returns the address that a text of an answer is, invalid if it is none.
func Addr(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}

// AddrPort returns the address and port that a text of an answer is, invalid if it is none.
func AddrPort(text string) netip.AddrPort {
	a, _ := netip.ParseAddrPort(text)
	return a
}
