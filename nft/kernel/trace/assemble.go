package trace

import (
	"slices"
	"strings"
	"time"
)

// quiet is after which time without a word a packet is taken to be at its end. It
// takes microseconds to come through all hooks, or as long as a program wants that
// it is queued to.
const quiet = 300 * time.Millisecond

// brief is enough where the packet has come through the last hook that there is, or
// might come in again by the loopback.
const brief = 50 * time.Millisecond

// neighbour is how much longer a bridge may keep a packet that was translated: until it
// knows the address of the endpoint's interface, or gives up (by default three
// questions, a second apart).
const neighbour = 3500 * time.Millisecond

// mostOpen is how many packets can be on their way at a time; the oldest is taken to
// be at its end if there are more.
const mostOpen = 256

// assembler puts events in order: those of one packet make a walk. Walks are given
// away in the order in which the packets came.
type assembler struct {
	open []*unfinished // oldest first
}

// unfinished is a packet on its way.
type unfinished struct {
	Walk
	id    uint32
	begun bool // by a mark of ours, not by somebody else's
	over  bool // and waits for those before it
	last  time.Time
}

// told is an event with what is known of its places.
type told struct {
	Event
	chain   Chain
	rule    Rule
	in, out link
}

// add adds an event and returns walks that are over by it.
func (a *assembler) add(e told, now time.Time) []*Walk {
	marks := e.chain.Own && e.Kind == KindRule && (e.rule.Comment == commentBegin || e.rule.Comment == commentReply)
	u := a.find(e.ID)
	if u != nil && u.begun && marks { // the number is another packet's now
		u.over, u = true, nil
	}
	if u == nil {
		if u = a.continued(&e); u == nil {
			u = &unfinished{}
			a.open = append(a.open, u)
		}
		u.id = e.ID
	}
	u.add(e, marks, now)
	u.over = u.ended()
	if len(a.open) > mostOpen {
		a.open[0].over = true
	}
	return a.take()
}

func (u *unfinished) add(e told, marks bool, now time.Time) {
	u.last, u.begun = now, u.begun || marks
	if e.Packet != nil || len(u.Passages) == 0 {
		p := Passage{Chain: e.chain, In: e.in.name, Out: e.out.name, Bridge: e.in.bridge}
		if e.Packet != nil {
			p.Packet = *e.Packet
		}
		u.Passages = append(u.Passages, p)
	}
	if e.Kind == KindRule && e.Rule == 0 {
		return // the end of a chain, which some kernels tell of as of a rule
	}
	p := &u.Passages[len(u.Passages)-1]
	p.Steps = append(p.Steps, Step{Chain: e.Chain, Kind: e.Kind, Rule: e.rule, Verdict: e.Verdict, Mark: e.Mark})
	if !e.chain.Own || e.Kind != KindRule {
		return
	}
	u.Answer = u.Answer || e.rule.Comment == commentReply
	if state, ok := strings.CutPrefix(e.rule.Comment, commentState); ok {
		u.State = state
	}
}

// ended reports whether nothing more can come.
func (u *unfinished) ended() bool {
	steps := u.Passages[len(u.Passages)-1].Steps
	if len(steps) == 0 {
		return false
	}
	ending := steps[len(steps)-1].ending()
	return ending != Unknown && ending != Queued
}

func (a *assembler) find(id uint32) *unfinished {
	for _, u := range a.open {
		if u.id == id && !u.over {
			return u
		}
	}
	return nil
}

// continued is the packet that comes to a hook under another number. The kernel makes
// the number from the packet's buffer and the interface that it came in by, so it
// changes where the packet
//
//   - went out by the loopback and comes in there again,
//   - came through prerouting at the port of a bridge (br_netfilter), and goes on to the
//     node by the bridge, or as a copy to several ports.
//
// Of packets that look the same, the latest goes on: the kernel does all of that in one
// go.
func (a *assembler) continued(e *told) *unfinished {
	if e.Packet == nil {
		return nil
	}
	for _, u := range slices.Backward(a.open) {
		if u.begun && !u.over && u.goesOn(e) {
			return u
		}
	}
	return nil
}

// goesOn reports whether the packet may be the one that e is about, the first event
// under another number.
func (u *unfinished) goesOn(e *told) bool {
	p := u.lastOfIP()
	if p == nil || p.Packet != *e.Packet || !e.chain.ofIP() || !u.passed(p.Chain.Hook) {
		return false
	}
	switch p.Chain.Hook {
	case "postrouting":
		return e.in.name == loopback
	case "prerouting":
		return e.chain.Hook == "forward" || e.chain.Hook == "input"
	}
	return false
}

// lose notes that events are missing.
func (a *assembler) lose() {
	for _, u := range a.open {
		u.Lost = true
	}
}

// overdue returns walks of which nothing was heard for a while.
func (a *assembler) overdue(now time.Time) []*Walk {
	for _, u := range a.open {
		u.over = u.over || !now.Before(u.due())
	}
	return a.take()
}

// next is when the first of the open walks may be overdue; false if none is open.
func (a *assembler) next() (at time.Time, ok bool) {
	for _, u := range a.open {
		if due := u.due(); !u.over && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}

// due is when the walk is taken to be over.
func (u *unfinished) due() time.Time {
	switch ending, _, _ := u.End(); ending {
	case Sent, Delivered:
		return u.last.Add(brief)
	case NotSeenAgain:
		return u.last.Add(neighbour)
	}
	return u.last.Add(quiet)
}

// rest returns all walks, over or not.
func (a *assembler) rest() []*Walk {
	for _, u := range a.open {
		u.over = true
	}
	return a.take()
}

// take takes away the walks that are over, as far as none before them is on its way.
// Packets that somebody else has traced are left out, and nobody waits for them.
func (a *assembler) take() (over []*Walk) {
	waits := false
	a.open = slices.DeleteFunc(a.open, func(u *unfinished) bool {
		waits = waits || u.begun && !u.over
		gone := u.over && (!waits || !u.begun)
		if gone && u.begun {
			over = append(over, &u.Walk)
		}
		return gone
	})
	return over
}
