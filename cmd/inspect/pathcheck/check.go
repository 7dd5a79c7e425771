// Package pathcheck simulates check packets: a fixed list of packets by which a node finds out
// whether its rules, routes and sysctls let the traffic of Services pass.
//
//	client outside --> node port, address of a load balancer --> pod of this node, of another one
//	pod            --> ClusterIP                             --> pod of another node
//	client outside --> health check ports of this node
//
// [Choose] takes them from Services, endpoints and routes, in each family, and [Simulate] simulates
// them. What rules of kube-vmap drop or reject is no result: that is the Services' matter.
package pathcheck

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain"
	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// A Packet is a check packet. Of packets with the same name, one has to be delivered.
type Packet struct {
	simulate.Packet
	Name   string
	Health bool // it goes to a health check port
}

// States of check packets.
const (
	Delivered = "delivered"
	Uncertain = "uncertain" // the simulation is not certain
	Lost      = "lost"      // the packet or its reply, always or sometimes
)

// States are all states.
var States = []string{Delivered, Uncertain, Lost}

// A Result is what becomes of the packets with a name: of the one that is delivered, or the first.
type Result struct {
	Packet
	State string
	// Text is the packet with its addresses, and why it is not delivered, with the rule that decides.
	Text string
	// Endpoints are where the packet goes or would have gone, sorted.
	Endpoints []netip.AddrPort
	by        path.RuleRef
}

// policyChains are the beginnings of the names of chains in which CNI plugins enforce network
// policies: these drop packets on purpose.
var policyChains = []string{"cali-", "KUBE-POD-FW-", "KUBE-NWPLCY-", "KUBE-ROUTER-"}

// Simulate simulates the packets that choose returns, on the node of the calling thread. Packets with
// the same name are lost only if the same rule stops all: a network policy stops the packets of single pods.
func Simulate(c livenode.Config, choose func(*livenode.Network) []Packet) (out []Result, err error) {
	c.OnlyConfiguration = true
	n, err := livenode.Open(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	for _, p := range choose(n.Network()) {
		last := len(out) - 1
		same := last >= 0 && out[last].Name == p.Name
		if same && out[last].State == Delivered {
			continue
		}
		switch r := run(n, p); {
		case !same:
			out = append(out, r)
		case r.State == Delivered:
			out[last] = r
		case r.by != out[last].by:
			out[last].State = Uncertain
		}
	}
	return out, nil
}

func run(n *livenode.Node, p Packet) Result {
	r := Result{Packet: p, State: Uncertain, Text: fmt.Sprintf("%s (%s)", p.Name, p.Packet)}
	w, err := n.Run(p.Packet, "")
	if err != nil {
		r.Text += ": " + err.Error()
		return r
	}
	for _, o := range w.Outcomes {
		r.Endpoints = append(r.Endpoints, o.Stopped...)
		for _, e := range o.Endpoints {
			r.Endpoints = append(r.Endpoints, e.AddrPort())
		}
	}
	slices.SortFunc(r.Endpoints, netip.AddrPort.Compare)
	a := explain.NewAnswer(w)
	a.Outcomes = slices.DeleteFunc(a.Outcomes, func(o path.Outcome) bool { return o.Reason != "" })
	untranslated := func(o path.Outcome) bool { return o.Verdict == path.VerdictNotService }
	switch arrives := a.Arrival(); {
	case len(a.Outcomes) == 0 || !p.Health && slices.ContainsFunc(a.Outcomes, untranslated):
		r.Text += ": the Service was not followed"
		return r
	case arrives == answer.Always:
		r.State = Delivered
		return r
	case arrives != answer.Unknown:
		r.State = Lost
	}
	var why []string
	why, r.by = reasons(&a)
	if slices.ContainsFunc(policyChains, func(start string) bool { return strings.HasPrefix(r.by.Chain, start) }) {
		r.State = Uncertain
		why[0] += "; a network policy may intend that"
	}
	if len(why) > 0 {
		r.Text += ": " + strings.ReplaceAll(why[0], "\n    to list it: ", "; to list it: ")
	}
	return r
}

// reasons returns why a packet is not delivered, or that is not certain, and the rule.
func reasons(a *answer.Answer) (why []string, by path.RuleRef) {
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		if !o.Arrives() {
			why, by = append(why, a.Sentence(o)), o.By
		}
		for k := range o.Endpoints {
			if e := &o.Endpoints[k]; answer.ReplyArrives(e.Reply) != answer.Always {
				why, by = append(why, a.ReplyText(e, o.Masquerade)), e.Reply.By
			}
		}
	}
	why = append(why, a.Doubts...)
	for _, table := range a.NotFollowed {
		why = append(why, "rules of "+table+" are not followed")
	}
	return why, by
}
