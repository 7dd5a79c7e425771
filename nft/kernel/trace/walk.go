package trace

// Path is the way of one packet through nf_tables.
type Path struct {
	// IsReply tells that the packet answers such as were asked for.
	IsReply bool
	// State is what conntrack made of it when it came: "new", "established",
	// "related", "invalid", "untracked"; empty if it was not told, as of answers.
	State string
	// Visits are the base chains it came through, in order; the tracer's own are
	// among them.
	Visits []Visit
	// Lost tells that messages were lost while the packet was on its way, so that
	// some of it may be missing.
	Lost bool
	// Refusal is why routing refuses such a packet, if it came through prerouting and was
	// not seen again; empty if routing was not asked, or has a route and a neighbour.
	Refusal string
}

// Visit is a packet's way through a base chain and those it leads to.
type Visit struct {
	Chain   Chain
	In, Out string // names of interfaces, where there are
	Bridge  bool   // In is a bridge
	Packet  Packet // as it came here
	Steps   []Step
}

// Step is a rule that matched, or the end of a chain.
type Step struct {
	Chain   string
	Kind    Kind
	Rule    Rule // of a policy the zero value
	Verdict Verdict
	Mark    uint32
}

// Ending says what became of a packet.
type Ending uint8

// The endings.
const (
	// EndingUnknown: messages were lost.
	EndingUnknown Ending = iota
	// EndingDropped by a rule, without an answer; Rejected with one.
	EndingDropped
	EndingRejected
	// EndingPolicyDrop: no rule decided, and the chain drops then.
	EndingPolicyDrop
	// EndingQueued to a program, which has not given it back so far; Taken by something
	// that a rule named.
	EndingQueued
	EndingStolen
	// EndingSent: it left the node.
	EndingSent
	// EndingDelivered to the node itself.
	EndingDelivered
	// EndingLostInHook: it came into a hook and not to its end, and no rule of nf_tables
	// took it.
	EndingLostInHook
	// EndingLostAfterHook: it came through a hook and to no other.
	EndingLostAfterHook
	// EndingNotSeenAgain: it came through prerouting from a bridge and to no other hook, and
	// it is not certain that routing refused it. The bridge may have dropped it, or
	// something that nf_tables does not see may have forwarded it.
	EndingNotSeenAgain
)

// Arrival says whether a packet arrived, as far as this node can see. Of several, the
// largest is that of all together.
type Arrival uint8

// The arrivals.
const (
	ArrivalYes Arrival = iota
	// ArrivalUnknown: what became of the packet is not certain.
	ArrivalUnknown
	ArrivalNo
)

// Arrival is what the ending means for the packet.
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

// End is what became of the packet, and where that was: the passage and step are nil
// for the endings that name none.
func (w *Path) End() (Ending, *Visit, *Step) {
	if len(w.Visits) == 0 {
		return EndingUnknown, nil, nil
	}
	last := &w.Visits[len(w.Visits)-1]
	if n := len(last.Steps); n > 0 {
		step := &last.Steps[n-1]
		if ending := step.ending(); ending != EndingUnknown {
			return ending, last, step
		}
	}
	if w.Lost {
		return EndingUnknown, last, nil
	}
	return w.endingOfHook()
}

// ending is how a packet ends by the step; Unknown if it goes on.
func (s *Step) ending() Ending {
	v := s.Verdict
	switch {
	case v.Drops() && s.Kind == KindPolicy:
		return EndingPolicyDrop
	case v.Drops() && s.Rule.Rejects:
		return EndingRejected
	case v.Drops():
		return EndingDropped
	case v.Code >= 0 && v.Code&verdictMask == nfQueue:
		return EndingQueued
	case v.Code >= 0 && v.Code&verdictMask == nfStolen:
		return EndingStolen
	}
	return EndingUnknown
}

// endingOfHook tells from how far it came in the last hook that it was seen in.
func (w *Path) endingOfHook() (Ending, *Visit, *Step) {
	last := w.lastIPVisit()
	switch {
	case last == nil:
		return EndingUnknown, &w.Visits[len(w.Visits)-1], nil
	case !w.passedHook(last.Chain.Hook):
		return EndingLostInHook, last, nil
	case last.Chain.Hook == "prerouting" && last.Bridge && (w.Refusal == "" || !w.isTranslated()):
		return EndingNotSeenAgain, last, nil
	case last.Chain.Hook == "input":
		return EndingDelivered, last, nil
	case last.Chain.Hook == "postrouting" && last.Out != loopback:
		return EndingSent, last, nil
	}
	return EndingLostAfterHook, last, nil
}

// isTranslated reports whether the destination changed. Routing has to agree to that also
// where the packet stays on a bridge (br_nf_pre_routing_finish).
func (w *Path) isTranslated() bool { return w.Visits[0].Packet.To != w.lastIPVisit().Packet.To }

// lastIPVisit is the last passage in a hook of IP, or nil. A bridge has hooks of the same
// names.
func (w *Path) lastIPVisit() *Visit {
	for i := len(w.Visits) - 1; i >= 0; i-- {
		if p := &w.Visits[i]; p.Chain.isIPHook() {
			return p
		}
	}
	return nil
}

// passedHook reports whether the packet came to the end of the hook it was seen in last.
func (w *Path) passedHook(hook string) bool {
	for i := len(w.Visits) - 1; i >= 0; i-- {
		c := w.Visits[i].Chain
		switch {
		case c.Own && c.Name == endPrefix+hook:
			return true
		case c.Hook != hook && c.isIPHook():
			return false // that was another time, on the other side of the loopback
		}
	}
	return false
}

// loopback is what the host sends to itself by.
const loopback = "lo"

// String is the ending in a word or two.
func (e Ending) String() string {
	switch e {
	case EndingDropped:
		return "dropped"
	case EndingRejected:
		return "rejected"
	case EndingPolicyDrop:
		return "dropped by policy"
	case EndingQueued:
		return "queued"
	case EndingStolen:
		return "taken"
	case EndingSent:
		return "sent"
	case EndingDelivered:
		return "delivered"
	case EndingLostInHook:
		return "lost in a hook"
	case EndingLostAfterHook:
		return "lost behind a hook"
	case EndingNotSeenAgain:
		return "not seen again"
	}
	return "unknown"
}
