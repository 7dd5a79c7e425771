package trace

import (
	"github.com/google/nftables/expr"

	"kube-vmap/nft/foreign/simulate"
)

// A Path is the path of one packet through nf_tables.
type Path struct {
	// IsReply is true if the packet is a reply to a matching one.
	IsReply bool
	// State is the conntrack state when the packet came: "new", "established", "related",
	// "invalid", "untracked"; empty if unknown, as for replies.
	State string
	// Visits are the base chains that the packet passed, in order, including the tracer's.
	Visits []Visit
	// Lost is true if messages were lost meanwhile, so the path may have gaps.
	Lost bool
	// Refusal is why routing refuses the packet, if it passed prerouting and was not seen
	// again; empty if routing was not asked, or has a route and, for a translated packet that
	// stays on a bridge, a neighbour.
	Refusal string
}

// A Visit is the packet's path through a base chain and the chains it jumps to.
type Visit struct {
	Chain   Chain
	In, Out string          // names of interfaces, if any
	Bridge  bool            // In is a bridge
	Packet  simulate.Packet // as it entered the chain
	Steps   []Step
}

// A Step is a rule that matched, or the end of a chain.
type Step struct {
	Chain   string
	Kind    Kind
	Rule    Rule // the zero value for a policy
	Verdict expr.Verdict
	Mark    uint32
}

// An Ending is how the path of a packet ended.
type Ending uint8

// The endings.
const (
	// EndingUnknown: messages were lost.
	EndingUnknown Ending = iota
	// EndingDropped: a rule dropped the packet without an answer; EndingRejected: with one.
	EndingDropped
	EndingRejected
	// EndingPolicyDrop: no rule decided, and the policy of the chain is drop.
	EndingPolicyDrop
	// EndingQueued: a program has the packet; EndingStolen: something named by a rule has.
	EndingQueued
	EndingStolen
	// EndingSent: it left the node.
	EndingSent
	// EndingDelivered: it was delivered to the node itself.
	EndingDelivered
	// EndingLostInHook: it entered a hook and did not reach its end, and no rule of
	// nf_tables took it.
	EndingLostInHook
	// EndingLostAfterHook: it passed a hook and reached no other.
	EndingLostAfterHook
	// EndingNotSeenAgain: it passed prerouting from a bridge and reached no other hook, and
	// it is not certain that routing refused it. The bridge may have dropped it, or
	// something that nf_tables does not see may have forwarded it.
	EndingNotSeenAgain
)

// An Arrival is whether a packet arrived, as far as this node can see. The largest of several
// counts for all together.
type Arrival uint8

// The arrivals.
const (
	ArrivalYes Arrival = iota
	// ArrivalUnknown: it is not certain what happened to the packet.
	ArrivalUnknown
	ArrivalNo
)

// Arrival returns whether the packet arrived.
func (e Ending) Arrival() Arrival {
	switch e {
	case EndingSent, EndingDelivered:
		return ArrivalYes
	case EndingDropped, EndingRejected, EndingPolicyDrop, EndingLostInHook, EndingLostAfterHook:
		return ArrivalNo
	case EndingUnknown, EndingQueued, EndingStolen, EndingNotSeenAgain:
	}
	return ArrivalUnknown
}

// End returns how the path ended, with the visit and the step, which are nil if the ending
// has none.
func (path *Path) End() (Ending, *Visit, *Step) {
	if len(path.Visits) == 0 {
		return EndingUnknown, nil, nil
	}
	last := &path.Visits[len(path.Visits)-1]
	if n := len(last.Steps); n > 0 {
		step := &last.Steps[n-1]
		if ending := step.ending(); ending != EndingUnknown {
			return ending, last, step
		}
	}
	if path.Lost {
		return EndingUnknown, last, nil
	}
	return path.endingOfHook()
}

// ending returns how the step ends the path; [EndingUnknown] if the packet continues.
func (s *Step) ending() Ending {
	switch simulate.Decision(&s.Verdict) {
	case expr.VerdictDrop:
		switch {
		case s.Kind == KindPolicy:
			return EndingPolicyDrop
		case s.Rule.Rejects:
			return EndingRejected
		}
		return EndingDropped
	case expr.VerdictQueue:
		return EndingQueued
	case expr.VerdictStolen:
		return EndingStolen
	}
	return EndingUnknown
}

// endingOfHook returns the ending that follows from the last hook the packet was seen in.
func (path *Path) endingOfHook() (Ending, *Visit, *Step) {
	last := path.lastIPVisit()
	switch {
	case last == nil:
		return EndingUnknown, &path.Visits[len(path.Visits)-1], nil
	case !path.passedHook(last.Chain.Hook):
		return EndingLostInHook, last, nil
	case last.Chain.Hook == "prerouting" && last.Bridge && (path.Refusal == "" || !path.isTranslated()):
		return EndingNotSeenAgain, last, nil
	case last.Chain.Hook == "input":
		return EndingDelivered, last, nil
	case last.Chain.Hook == "postrouting" && last.Out != loopback:
		return EndingSent, last, nil
	}
	return EndingLostAfterHook, last, nil
}

// isTranslated reports whether the destination changed. Then the packet is routed even if it
// stays on a bridge (br_nf_pre_routing_finish).
func (path *Path) isTranslated() bool {
	return path.Visits[0].Packet.To != path.lastIPVisit().Packet.To
}

// lastIPVisit returns the last visit in a hook of IP, or nil. The hooks of a bridge have the
// same names.
func (path *Path) lastIPVisit() *Visit {
	for i := len(path.Visits) - 1; i >= 0; i-- {
		if p := &path.Visits[i]; p.Chain.isIPHook() {
			return p
		}
	}
	return nil
}

// passedHook reports whether the packet reached the end of the hook it was last seen in.
func (path *Path) passedHook(hook simulate.Hook) bool {
	for i := len(path.Visits) - 1; i >= 0; i-- {
		c := path.Visits[i].Chain
		switch {
		case c.Own && c.Name == endPrefix+string(hook):
			return true
		case c.Hook != hook && c.isIPHook():
			return false // that was before the loopback
		}
	}
	return false
}

const loopback = "lo"
