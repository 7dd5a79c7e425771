package trace

import (
	"slices"
	"strings"
	"time"
)

// idleTimeout is after which time without a word a packet is taken to be at its end. It
// takes microseconds to come through all hooks, or as long as a program wants that
// it is queued to.
const idleTimeout = 300 * time.Millisecond

// arrivedTimeout is enough where the packet has come through the last hook that there is, or
// might come in again by the loopback.
const arrivedTimeout = 50 * time.Millisecond

// neighbourTimeout is how much longer a bridge may keep a packet that was translated: until it
// knows the address of the endpoint's interface, or gives up (by default three
// questions, a second apart).
const neighbourTimeout = 3500 * time.Millisecond

// maxOpenPaths is how many packets can be on their way at a time; the oldest is taken to
// be at its end if there are more.
const maxOpenPaths = 256

// assembler puts events in order: those of one packet make a walk. Walks are given
// away in the order in which the packets came.
type assembler struct {
	open []*openPath // oldest first
}

// openPath is a packet on its way.
type openPath struct {
	Path
	id   uint32
	ours bool // by a mark of ours, not by somebody else's
	done bool // and waits for those before it
	last time.Time
}

// resolvedEvent is an event with what is known of its places.
type resolvedEvent struct {
	Event
	chain   Chain
	rule    Rule
	in, out link
}

// add adds an event and returns walks that are over by it.
func (a *assembler) add(e resolvedEvent, now time.Time) []*Path {
	marks := e.chain.Own && e.Kind == KindRule && (e.rule.Comment == commentBegin || e.rule.Comment == commentReply)
	u := a.find(e.ID)
	if u != nil && u.ours && marks { // the number is another packet's now
		u.done, u = true, nil
	}
	if u == nil {
		if u = a.findContinued(&e); u == nil {
			u = &openPath{}
			a.open = append(a.open, u)
		}
		u.id = e.ID
	}
	u.add(e, marks, now)
	u.done = u.isEnded()
	if len(a.open) > maxOpenPaths {
		a.open[0].done = true
	}
	return a.takeDone()
}

func (u *openPath) add(e resolvedEvent, marks bool, now time.Time) {
	u.last, u.ours = now, u.ours || marks
	if e.Packet != nil || len(u.Visits) == 0 {
		p := Visit{Chain: e.chain, In: e.in.name, Out: e.out.name, Bridge: e.in.bridge}
		if e.Packet != nil {
			p.Packet = *e.Packet
		}
		u.Visits = append(u.Visits, p)
	}
	if e.Kind == KindRule && e.Rule == 0 {
		return // the end of a chain, which some kernels tell of as of a rule
	}
	p := &u.Visits[len(u.Visits)-1]
	p.Steps = append(p.Steps, Step{Chain: e.Chain, Kind: e.Kind, Rule: e.rule, Verdict: e.Verdict, Mark: e.Mark})
	if !e.chain.Own || e.Kind != KindRule {
		return
	}
	u.IsReply = u.IsReply || e.rule.Comment == commentReply
	if state, ok := strings.CutPrefix(e.rule.Comment, commentState); ok {
		u.State = state
	}
}

// isEnded reports whether nothing more can come.
func (u *openPath) isEnded() bool {
	steps := u.Visits[len(u.Visits)-1].Steps
	if len(steps) == 0 {
		return false
	}
	ending := steps[len(steps)-1].ending()
	return ending != EndingUnknown && ending != EndingQueued
}

func (a *assembler) find(id uint32) *openPath {
	for _, u := range a.open {
		if u.id == id && !u.done {
			return u
		}
	}
	return nil
}

// findContinued is the packet that comes to a hook under another number. The kernel makes
// the number from the packet's buffer and the interface that it came in by, so it
// changes where the packet
//
//   - went out by the loopback and comes in there again,
//   - came through prerouting at the port of a bridge (br_netfilter), and goes on to the
//     node by the bridge, or as a copy to several ports.
//
// Of packets that look the same, the latest goes on: the kernel does all of that in one
// go.
func (a *assembler) findContinued(e *resolvedEvent) *openPath {
	if e.Packet == nil {
		return nil
	}
	for _, u := range slices.Backward(a.open) {
		if u.ours && !u.done && u.mayContinueWith(e) {
			return u
		}
	}
	return nil
}

// mayContinueWith reports whether the packet may be the one that e is about, the first event
// under another number.
func (u *openPath) mayContinueWith(e *resolvedEvent) bool {
	p := u.lastIPVisit()
	if p == nil || p.Packet != *e.Packet || !e.chain.isIPHook() || !u.passedHook(p.Chain.Hook) {
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

// markLost notes that events are missing.
func (a *assembler) markLost() {
	for _, u := range a.open {
		u.Lost = true
	}
}

// expire returns walks of which nothing was heard for a while.
func (a *assembler) expire(now time.Time) []*Path {
	for _, u := range a.open {
		u.done = u.done || !now.Before(u.deadline())
	}
	return a.takeDone()
}

// nextDeadline is when the first of the open walks may be overdue; false if none is open.
func (a *assembler) nextDeadline() (at time.Time, ok bool) {
	for _, u := range a.open {
		if due := u.deadline(); !u.done && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}

// deadline is when the walk is taken to be over.
func (u *openPath) deadline() time.Time {
	switch ending, _, _ := u.End(); ending {
	case EndingSent, EndingDelivered:
		return u.last.Add(arrivedTimeout)
	case EndingNotSeenAgain:
		return u.last.Add(neighbourTimeout)
	}
	return u.last.Add(idleTimeout)
}

// flush returns all walks, over or not.
func (a *assembler) flush() []*Path {
	for _, u := range a.open {
		u.done = true
	}
	return a.takeDone()
}

// takeDone takes away the walks that are over, as far as none before them is on its way.
// Packets that somebody else has traced are left out, and nobody waits for them.
func (a *assembler) takeDone() (over []*Path) {
	waits := false
	a.open = slices.DeleteFunc(a.open, func(u *openPath) bool {
		waits = waits || u.ours && !u.done
		gone := u.done && (!waits || !u.ours)
		if gone && u.ours {
			over = append(over, &u.Path)
		}
		return gone
	})
	return over
}
