package trace

// Walk is the way of one packet through nf_tables.
type Walk struct {
	// Answer tells that the packet answers such as were asked for.
	Answer bool
	// State is what conntrack made of it when it came: "new", "established",
	// "related", "invalid", "untracked"; empty if it was not told, as of answers.
	State string
	// Passages are the base chains it came through, in order; the tracer's own are
	// among them.
	Passages []Passage
	// Lost tells that messages were lost while the packet was on its way, so that
	// some of it may be missing.
	Lost bool
	// Refusal is why routing refuses such a packet, if it came through prerouting and was
	// not seen again; empty if routing was not asked, or has a route and a neighbour.
	Refusal string
}

// Passage is a packet's way through a base chain and those it leads to.
type Passage struct {
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
	// Unknown: messages were lost.
	Unknown Ending = iota
	// Dropped by a rule, without an answer; Rejected with one.
	Dropped
	Rejected
	// DroppedByPolicy: no rule decided, and the chain drops then.
	DroppedByPolicy
	// Queued to a program, which has not given it back so far; Taken by something
	// that a rule named.
	Queued
	Taken
	// Sent: it left the node.
	Sent
	// Delivered to the node itself.
	Delivered
	// LostInHook: it came into a hook and not to its end, and no rule of nf_tables
	// took it.
	LostInHook
	// LostBehindHook: it came through a hook and to no other.
	LostBehindHook
	// NotSeenAgain: it came through prerouting from a bridge and to no other hook, and
	// it is not certain that routing refused it. The bridge may have dropped it, or
	// something that nf_tables does not see may have forwarded it.
	NotSeenAgain
)

// Arrival says whether a packet arrived, as far as this node can see. Of several, the
// largest is that of all together.
type Arrival uint8

// The arrivals.
const (
	Arrived Arrival = iota
	// ArrivalUnknown: what became of the packet is not certain.
	ArrivalUnknown
	NotArrived
)

// Arrival is what the ending means for the packet.
func (e Ending) Arrival() Arrival {
	switch e {
	case Sent, Delivered:
		return Arrived
	case Dropped, Rejected, DroppedByPolicy, LostInHook, LostBehindHook:
		return NotArrived
	case Unknown, Queued, Taken, NotSeenAgain:
	}
	return ArrivalUnknown
}

// End is what became of the packet, and where that was: the passage and step are nil
// for the endings that name none.
func (w *Walk) End() (Ending, *Passage, *Step) {
	if len(w.Passages) == 0 {
		return Unknown, nil, nil
	}
	last := &w.Passages[len(w.Passages)-1]
	if n := len(last.Steps); n > 0 {
		step := &last.Steps[n-1]
		if ending := step.ending(); ending != Unknown {
			return ending, last, step
		}
	}
	if w.Lost {
		return Unknown, last, nil
	}
	return w.endOfHook()
}

// ending is how a packet ends by the step; Unknown if it goes on.
func (s *Step) ending() Ending {
	v := s.Verdict
	switch {
	case v.Drops() && s.Kind == KindPolicy:
		return DroppedByPolicy
	case v.Drops() && s.Rule.Rejects:
		return Rejected
	case v.Drops():
		return Dropped
	case v.Code >= 0 && v.Code&verdictMask == nfQueue:
		return Queued
	case v.Code >= 0 && v.Code&verdictMask == nfStolen:
		return Taken
	}
	return Unknown
}

// endOfHook tells from how far it came in the last hook that it was seen in.
func (w *Walk) endOfHook() (Ending, *Passage, *Step) {
	last := w.lastOfIP()
	switch {
	case last == nil:
		return Unknown, &w.Passages[len(w.Passages)-1], nil
	case !w.passed(last.Chain.Hook):
		return LostInHook, last, nil
	case last.Chain.Hook == "prerouting" && last.Bridge && (w.Refusal == "" || !w.translated()):
		return NotSeenAgain, last, nil
	case last.Chain.Hook == "input":
		return Delivered, last, nil
	case last.Chain.Hook == "postrouting" && last.Out != loopback:
		return Sent, last, nil
	}
	return LostBehindHook, last, nil
}

// translated reports whether the destination changed. Routing has to agree to that also
// where the packet stays on a bridge (br_nf_pre_routing_finish).
func (w *Walk) translated() bool { return w.Passages[0].Packet.To != w.lastOfIP().Packet.To }

// lastOfIP is the last passage in a hook of IP, or nil. A bridge has hooks of the same
// names.
func (w *Walk) lastOfIP() *Passage {
	for i := len(w.Passages) - 1; i >= 0; i-- {
		if p := &w.Passages[i]; p.Chain.ofIP() {
			return p
		}
	}
	return nil
}

// passed reports whether the packet came to the end of the hook it was seen in last.
func (w *Walk) passed(hook string) bool {
	for i := len(w.Passages) - 1; i >= 0; i-- {
		c := w.Passages[i].Chain
		switch {
		case c.Own && c.Name == endPrefix+hook:
			return true
		case c.Hook != hook && c.ofIP():
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
	case Dropped:
		return "dropped"
	case Rejected:
		return "rejected"
	case DroppedByPolicy:
		return "dropped by policy"
	case Queued:
		return "queued"
	case Taken:
		return "taken"
	case Sent:
		return "sent"
	case Delivered:
		return "delivered"
	case LostInHook:
		return "lost in a hook"
	case LostBehindHook:
		return "lost behind a hook"
	case NotSeenAgain:
		return "not seen again"
	}
	return "unknown"
}
