// Package pathcheck simulates check packets: a fixed list of packets by which a node finds out
// whether its rules, routes and sysctls let the traffic of Services pass.
//
//	client outside --> node port, address of a load balancer --> pod of this node, of another one
//	pod            --> ClusterIP                             --> pod of another node
//	client outside --> health check ports of this node
//
// [Choose] takes addresses of real Services, endpoints and routes, in each family that Services use,
// and [Simulate] simulates the packets with package livenode. What rules of kube-vmap itself drop or
// reject is no result: that is the Services' matter.
package pathcheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain"
	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// A Packet is a check packet. Of packets with the same name one has to be delivered.
type Packet struct {
	simulate.Packet
	Name   string
	Health bool // it goes to a health check port
}

// String returns the name with the addresses.
func (p Packet) String() string { return fmt.Sprintf("%s (%s)", p.Name, p.Packet) }

// States of check packets.
const (
	Delivered = "delivered"
	Uncertain = "uncertain" // the simulation is not certain
	Lost      = "lost"      // the packet or its reply, always or sometimes
)

// States are all states, the worst last.
var States = []string{Delivered, Uncertain, Lost}

// A Result is what becomes of the packets with a name: of the first one that is delivered, or else of
// the first one.
type Result struct {
	Packet
	State string
	Why   string // it is not delivered, with the rule that decides
	by    path.RuleRef
}

// policyChains are the beginnings of the names of chains in which CNI plugins enforce network
// policies: these drop packets on purpose.
var policyChains = []string{"cali-", "KUBE-POD-FW-", "KUBE-NWPLCY-", "KUBE-ROUTER-"}

// Simulate simulates the packets that choose returns on the node of the calling thread.
func Simulate(c livenode.Config, choose func(*livenode.Network) []Packet) (out []Result, err error) {
	c.NewConnections = true
	n, err := livenode.Open(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	return Run(n, choose(n.Network())), nil
}

// Run simulates packets. If several have a name, they are lost only if the same rule stops all: a
// network policy stops those of single pods.
func Run(n *livenode.Node, packets []Packet) (out []Result) {
	for _, p := range packets {
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
	return out
}

func run(n *livenode.Node, p Packet) Result {
	w, err := n.Run(p.Packet, "")
	if err != nil {
		return Result{Packet: p, State: Uncertain, Why: err.Error()}
	}
	a := explain.NewAnswer(w)
	a.Outcomes = slices.DeleteFunc(a.Outcomes, func(o answer.Outcome) bool { return o.Reason != "" })
	ignored := func(o answer.Outcome) bool { return o.Verdict == answer.VerdictNotService }
	r := Result{Packet: p, State: Delivered}
	switch arrives := a.Arrival(); {
	case arrives == answer.Unknown, len(a.Outcomes) == 0, !p.Health && slices.ContainsFunc(a.Outcomes, ignored):
		r.State = Uncertain
	case arrives != answer.Always:
		r.State = Lost
	}
	if r.State != Delivered {
		r.explain(&a)
	}
	if slices.ContainsFunc(policyChains, func(start string) bool { return strings.HasPrefix(r.by.Chain, start) }) {
		r.State = Uncertain
		r.Why += "; a network policy may intend that"
	}
	return r
}

// explain sets why the packet is not delivered, or that is not certain.
func (r *Result) explain(a *answer.Answer) {
	var reasons []string
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		if !o.Arrives() {
			r.by = o.By
			reasons = append(reasons, a.Sentence(o))
		}
		for k := range o.Endpoints {
			if e := &o.Endpoints[k]; e.Reply.Arrives() != answer.Always {
				r.by = e.Reply.By
				reasons = append(reasons, e.ReplyText(a, o.Masquerade))
			}
		}
	}
	reasons = append(reasons, a.Doubts...)
	if len(a.NotFollowed) > 0 {
		reasons = append(reasons, "not followed: "+strings.Join(a.NotFollowed, ", "))
	}
	r.Why = "the Service was not followed"
	if len(reasons) > 0 {
		r.Why, _, _ = strings.Cut(reasons[0], "\n") // without the command to list the chain
	}
}

// Texts returns a text for each reason why packets have a state, those to health check ports or the
// others: the packets with the reason, and the rule.
func Texts(results []Result, state string, health bool) (out []string) {
	var reasons []string
	packets := map[string][]string{}
	for _, r := range results {
		if r.State != state || r.Health != health {
			continue
		}
		if packets[r.Why] == nil {
			reasons = append(reasons, r.Why)
		}
		packets[r.Why] = append(packets[r.Why], r.Packet.String())
	}
	for _, why := range reasons {
		out = append(out, strings.TrimSuffix(strings.Join(packets[why], ", ")+": "+why, ": "))
	}
	return out
}
