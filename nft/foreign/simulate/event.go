package simulate

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/nft/foreign/simulate/path"
)

// An Own is what the caller knows of its own tables.
type Own interface {
	// Has reports whether a table is one of them. An expression in it that is not understood makes
	// the outcome unknown, and is not a doubt; what it picks are endpoints.
	Has(Table) bool
	// Slots returns the map in which a chain looks up what it picks, and picks again if that is not
	// there: the first numbers are. It is empty for other chains.
	Slots(Chain) string
	// Note returns what to note of events of the packet, of the reply to it, or of what the
	// client sends then.
	Note(Packet, []Event) (Notes, error)
}

// Notes are what an [Own] notes of a packet. Outcomes with different ones are different.
type Notes struct {
	Steps         []path.Step
	Service, Kind string // of the destination
	Why           string // the source is as it is
	Reason, Fault string // why a rule of its own stops the packet
	NoEndpoint    bool   // that is because nothing serves it
	Faults        []string
	Affinity      *path.Affinity
}

// An Event is something that happens to a packet, or that a rule of the caller's own finds, as a step.
type Event struct {
	path.Step
	Own         bool   // the table is one of the caller's own
	Why         string // the rule matches or does not; Text begins with it
	Expressions []any  // of the rule
	// Destination is where a packet went that is stopped, or goes after it was rewritten.
	Destination netip.AddrPort
	Target      string // of a jump
	// Set, Key, Element and Found are for a look-up and for EventAdd; Timeout is for what is added.
	Set     *Set
	Key     []byte
	Element Element
	Found   bool
	Timeout time.Duration
}

// Kinds of events that are not kinds of steps.
const (
	EventNoMatch = "no match" // a rule with a reason does not match
	EventEmpty   = "empty"    // the chain has no rules
	EventRewrite = "rewrite"  // of the destination, without connection tracking
	EventAdd     = "add"      // of an element to a map, unless it has that
)

// A record is what a walk has met so far.
type record struct {
	hook       Hook
	back       bool // the packet is the endpoint's reply
	later      bool // it is what the client sends then
	events     []Event
	translated bool // a rule has decided the destination
	verdict    string
	how        string       // how it was refused
	by         path.RuleRef // the rule or policy that refused or dropped it
	masquerade bool
	doubts     []Doubt
}

func (w *walk) report(kind, text string, e Event) {
	at := w.position.ref()
	if e.Why = w.reason.text; e.Why != "" {
		text = e.Why + ": " + text
	}
	e.Step = path.Step{
		Hook: string(w.record.hook), Table: at.Table, Chain: at.Chain, Rule: at.Rule, Back: w.record.back,
		Kind: kind, To: e.To, Text: text,
	}
	e.Own, e.Expressions = w.position.own, w.position.rule.Expressions
	w.record.events = append(w.record.events, e)
}

// reportNode adds an event of the node that is not in a table.
func (w *walk) reportNode(h Hook, kind, text string) {
	s := path.Step{Hook: string(h), Back: w.record.back, Kind: kind, Text: text}
	w.record.events = append(w.record.events, Event{Step: s})
}

func (m *sourceCache) owns(t Table) bool { return m.Own != nil && m.Own.Has(t) }

// notes returns what the caller notes of the events.
func (w *walk) notes() (Notes, error) {
	if w.Own == nil {
		return Notes{}, nil
	}
	return w.Own.Note(w.packet, w.record.events)
}

func (w *walk) doubt(c undecidedError) Doubt {
	return Doubt{w.position.base.Chain, w.position.ref(), string(c)}
}

// addDoubt notes that the effect of a rule is not known, once for each base chain.
func (w *walk) addDoubt(c undecidedError) { w.record.doubts = addDoubt(w.record.doubts, w.doubt(c)) }

// addNodeDoubt notes that something of the node may decide otherwise.
func (w *walk) addNodeDoubt(why string) { w.record.doubts = addDoubt(w.record.doubts, Doubt{Why: why}) }

// noteUnknown makes an error that something is undecided the verdict, with a doubt.
func (w *walk) noteUnknown(err error) error {
	var undecided undecidedError
	if !errors.As(err, &undecided) {
		return err
	}
	w.record.verdict, w.record.how = path.VerdictUnknown, err.Error()
	w.addNodeDoubt(string(undecided))
	return nil
}

func (w *walk) noteLookup(set *Set, key []byte, e Element, found bool) {
	if w.position.own && set.Anonymous {
		return
	}
	w.reason = reason{text: w.lookupText(set, valueText(set.KeyType, key), e, found)}
	kind, text := path.StepMiss, ""
	if found {
		kind = path.StepLookup
	}
	if e.Verdict != nil && e.Verdict.Chain != "" {
		text = "goto " + e.Verdict.Chain
	}
	w.report(kind, text, Event{Set: set, Key: key, Element: e, Found: found})
}

// lookupText returns the result of a look-up. Anonymous sets have no name to print.
func (w *walk) lookupText(set *Set, key string, e Element, found bool) string {
	what, has := set.Name, "has"
	switch {
	case w.position.own:
	case set.Anonymous && set.IsMap:
		what = "the rule's own map"
	case set.Anonymous:
		what = "the rule's own set"
	case set.IsMap:
		what = "map " + what
	default:
		what = "set " + what
	}
	if !found {
		has = "does not have"
	}
	if w.position.own && e.Comment != "" {
		key += " (" + e.Comment + ")"
	}
	return what + " " + has + " " + key
}

func (w *walk) setMark(mark uint32) {
	fresh := mark&^w.frame.mark != 0
	if w.frame.mark = mark; fresh {
		w.report(path.StepMark, "", Event{})
	}
}

func (w *walk) notePick(n uint32, how string) {
	w.report(path.StepPick, fmt.Sprintf("picks one of %d %s", n, how), Event{})
}

func (w *walk) translate(source bool, to netip.AddrPort) {
	kind, side := path.StepDestination, "goes to "
	if source {
		kind, side = path.StepSource, "the source becomes "
	}
	w.report(kind, side+to.String(), Event{Step: path.Step{To: to.String()}})
	w.record.translated = w.record.translated || !source
	w.setTranslation(source, to)
}

func (w *walk) noteDropped() {
	if w.record.verdict != path.VerdictRefused {
		w.record.verdict = path.VerdictDropped
		w.report(path.StepDrop, "dropped", Event{Destination: w.frame.destination()})
	}
	if w.record.by = w.position.ref(); !w.position.own {
		w.record.by.Text = w.position.rule.Text(w.position.chain.Table.Family)
	}
}

func (w *walk) noteUnreachable(err error) {
	w.position = position{}
	w.record.verdict, w.record.how = path.VerdictUnreachable, err.Error()
	w.reportNode("routing", path.StepUnreachable, err.Error())
}
