package simulate

import (
	"net/netip"
	"slices"
	"time"
)

// A Change is how an established connection would now be treated otherwise: its own packets,
// or a new connection in its place.
type Change struct {
	Kind ChangeKind
	// Verdict, How, By and Because are those of the [Outcome] or [Reply] that ends packets, or
	// that a new connection has.
	Verdict Verdict
	How     string
	By      *RuleRef
	Because string
	// Source is the client's address as the endpoint would see it in a new connection, for the
	// reason Why.
	Source netip.Addr
	Why    string
}

// A ChangeKind is a kind of [Change].
type ChangeKind uint8

const (
	// ChangeStopped means that packets of the connection no longer arrive.
	ChangeStopped ChangeKind = iota
	// ChangeReplyStopped means that replies no longer reach the client.
	ChangeReplyStopped
	// ChangeRefused means that a new connection would not arrive.
	ChangeRefused
	// ChangeEndpoint means that no new connection would go to the endpoint.
	ChangeEndpoint
	// ChangeSource means that the endpoint would see another address in a new connection.
	ChangeSource
)

// An Established is an established connection, and its changes.
type Established struct {
	Flow
	Changes []Change
}

// Limits of what is simulated for established connections: of walks for one, and of
// connections that differ by more than ports and times.
const (
	walksPerFlow = 64
	maxFlowKinds = 256
)

// addChanges finds the changes of the client's other connections. Those that differ only by
// their ports have the same ones.
func (m *sourceCache) addChanges(r *Result, in Link) error {
	fresh, left := r.fresh()
	byKind := map[Flow][]Change{}
	for i := range r.Flows {
		f := &r.Flows[i]
		kind := f.kind()
		changes, known := byKind[kind]
		if !known && len(byKind) == maxFlowKinds {
			r.FlowsUnexplored++
			continue
		}
		if !known {
			p := r.Packet
			p.FromPort = f.Client.Port()
			now := Result{Packet: p, Flow: f}
			if err := explore(m, in, &now, &choices{perPick: walksPerFlow, walks: walksPerFlow}); err != nil {
				return err
			}
			r.Doubts = union(r.Doubts, now.Doubts)
			changes = f.changes(now, fresh, left == Unexplored{} && r.Affinity == nil)
			byKind[kind] = changes
		}
		f.Changes = changes
	}
	return nil
}

// fresh returns the outcomes of a new connection.
func (r *Result) fresh() ([]Outcome, Unexplored) {
	if r.Flow != nil {
		return r.IfNew, r.IfNewUnexplored
	}
	return r.Outcomes, r.Unexplored
}

// kind returns the flow without what makes no difference to rules.
func (f Flow) kind() Flow {
	f.Client = netip.AddrPortFrom(f.Client.Addr(), 0)
	f.SeenSource = netip.AddrPortFrom(f.SeenSource.Addr(), 0)
	f.State, f.Expires, f.Started = "", 0, time.Time{}
	return f
}

// changes returns the changes of a flow by what happens to its packets now and to a new
// connection. Without all outcomes of that, whether the endpoint left is not known.
func (f *Established) changes(now Result, fresh []Outcome, complete bool) (changes []Change) {
	if f.Reopens {
		return nil // it has ended
	}
	for _, o := range now.Outcomes {
		if !o.Verdict.Arrives() && o.Verdict != VerdictUnknown {
			changes = append(changes, o.change(ChangeStopped))
		}
		for _, e := range o.Endpoints {
			if r := e.Reply; r != (Reply{}) && r.Verdict != VerdictUnknown && !r.ReachesClient(now.Packet) {
				changes = append(changes, r.change())
			}
		}
	}
	if c, ok := f.changeIfNew(fresh, complete); ok {
		changes = append(changes, c)
	}
	return changes
}

// changeIfNew returns the change of a new connection in place of the flow.
func (f *Established) changeIfNew(fresh []Outcome, complete bool) (c Change, ok bool) {
	var source *Change
	for _, o := range fresh {
		if slices.Contains(o.Stopped, f.Endpoint) {
			return o.change(ChangeRefused), true
		}
		for _, e := range o.Endpoints {
			switch {
			case e.Address != f.Endpoint:
			case e.Source == f.SeenSource.Addr():
				return c, false
			default:
				source = &Change{Kind: ChangeSource, Source: e.Source, Why: o.Why}
			}
		}
	}
	arrives := func(o Outcome) bool { return o.Verdict.Arrives() || o.Verdict == VerdictUnknown }
	switch {
	case source != nil:
		return *source, true
	case !complete || len(fresh) == 0:
		return c, false
	case slices.ContainsFunc(fresh, arrives):
		return Change{Kind: ChangeEndpoint}, true
	case fresh[0].Because == ReasonNoEndpoint || fresh[0].Because == ReasonNoLocalEndpoint:
		return fresh[0].change(ChangeEndpoint), true
	}
	return fresh[0].change(ChangeRefused), true
}

// change returns the outcome as a change.
func (o *Outcome) change(kind ChangeKind) Change {
	return Change{Kind: kind, Verdict: o.Verdict, How: o.How, By: o.By, Because: o.Because}
}

// change returns the end of the reply as a change.
func (r Reply) change() Change {
	c := Change{Kind: ChangeReplyStopped, Verdict: r.Verdict, How: r.How, Because: r.Because}
	if r.By != (RuleRef{}) {
		c.By = &r.By
	}
	return c
}
