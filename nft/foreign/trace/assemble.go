package trace

import (
	"slices"
	"strings"
	"time"
)

// idleTimeout is the time without an event after which a path is considered complete. A
// packet passes all hooks within microseconds, unless it is queued to a program.
const idleTimeout = 300 * time.Millisecond

// arrivedTimeout is the timeout of a packet that has passed the last hook; it may still come
// in again by the loopback.
const arrivedTimeout = 50 * time.Millisecond

// neighbourTimeout is how long a bridge may keep a packet that was translated: until the
// endpoint's neighbour entry is resolved or fails (by default three probes, a second apart).
const neighbourTimeout = 3500 * time.Millisecond

// maxOpenPaths is how many paths can be open; with more, the oldest is considered complete.
const maxOpenPaths = 256

// An assembler assembles the events of each packet to a path. Paths are returned in the order
// in which the packets came.
type assembler struct {
	open []*openPath // oldest first
	lost bool        // messages were lost, and those before are not all read
}

type openPath struct {
	Path
	id   uint32
	ours bool // begun by this tracer, not by another program
	done bool // and waits for older paths
	last time.Time
}

// add adds an event and returns the paths that it completes.
func (a *assembler) add(e resolvedEvent, now time.Time) []*Path {
	// What comes in by the loopback was marked when it was sent.
	marks := e.chain.Own && e.Kind == KindRule && e.in.name != loopback &&
		(e.Rule.Comment == commentBegin || e.Rule.Comment == commentReply)
	u := a.find(e.id)
	if u != nil && u.ours && (marks || u.hasPassed(&e)) { // another packet has the same ID now
		u.done, u = true, nil
	}
	if u == nil {
		if u = a.findContinued(&e); u == nil {
			u = &openPath{Path: Path{Lost: a.lost}}
			a.open = append(a.open, u)
		}
		u.id = e.id
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
	if e.packet != nil || len(u.Visits) == 0 {
		p := Visit{Chain: e.chain, In: e.in.name, Out: e.out.name, Bridge: e.in.bridge}
		if e.packet != nil {
			p.Packet = *e.packet
		}
		u.Visits = append(u.Visits, p)
	}
	if e.Kind == KindRule && e.Rule.Handle == 0 {
		return // the end of a chain, which some kernels report as a rule
	}
	p := &u.Visits[len(u.Visits)-1]
	p.Steps = append(p.Steps, e.Step)
	if !e.chain.Own || e.Kind != KindRule {
		return
	}
	u.IsReply = u.IsReply || e.Rule.Comment == commentReply
	if state, ok := strings.CutPrefix(e.Rule.Comment, commentState); ok {
		u.State = state
	}
}

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

// findContinued returns the path of a packet that has another ID now. The kernel makes the
// ID from the packet's buffer and its input interface, so it changes where the packet
//
//   - left by the loopback and comes in there again,
//   - passed prerouting at the port of a bridge (br_netfilter), and continues to the node
//     by the bridge, or as a copy to several ports.
//
// Of packets that look the same, the latest is continued: the kernel processes all of this
// without a pause.
func (a *assembler) findContinued(e *resolvedEvent) *openPath {
	if e.packet == nil {
		return nil
	}
	for _, u := range slices.Backward(a.open) {
		if u.ours && !u.done && u.mayContinueWith(e) {
			return u
		}
	}
	return nil
}

// mayContinueWith reports whether e, the first event with another ID, may be about the same
// packet.
func (u *openPath) mayContinueWith(e *resolvedEvent) bool {
	p := u.lastIPVisit()
	if p == nil || p.Packet != *e.packet || !e.chain.isIPHook() || !u.passedHook(p.Chain.Hook) {
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

// hasPassed reports whether the path was already in the tracer's chain that e begins. A packet passes
// each once.
func (u *openPath) hasPassed(e *resolvedEvent) bool {
	return e.packet != nil && e.chain.Own && slices.ContainsFunc(u.Visits, func(v Visit) bool {
		return v.Chain.Own && v.Chain.Name == e.chain.Name
	})
}

func (a *assembler) markLost() {
	a.lost = true
	for _, u := range a.open {
		u.Lost = true
	}
}

func (a *assembler) expire(now time.Time) []*Path {
	for _, u := range a.open {
		u.done = u.done || !now.Before(u.deadline())
	}
	return a.takeDone()
}

// nextDeadline returns the first deadline of the open paths; false if none is open.
func (a *assembler) nextDeadline() (at time.Time, ok bool) {
	for _, u := range a.open {
		if due := u.deadline(); !u.done && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}

// deadline returns when the path is considered complete without another event.
func (u *openPath) deadline() time.Time {
	switch ending, _, _ := u.End(); ending {
	case EndingSent, EndingDelivered:
		return u.last.Add(arrivedTimeout)
	case EndingNotSeenAgain:
		return u.last.Add(neighbourTimeout)
	}
	return u.last.Add(idleTimeout)
}

func (a *assembler) flush() []*Path {
	for _, u := range a.open {
		u.done = true
	}
	return a.takeDone()
}

// takeDone removes and returns complete paths, up to the first one of ours that is not.
// Packets that another program traces are dropped.
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
