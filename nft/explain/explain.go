package explain

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Explain says what would become of the packet. It comes in by the interface, or by
// the one towards its source if that is the zero value; what comes from an address of the
// node is sent by the node. An error is about the sources, and [ErrNoTable] where
// there is nothing of ours; what cannot be said is no error but an outcome.
func Explain(s Sources, p Packet, in Link) (Walk, error) {
	m := newMemo(s, p.Family())
	if err := m.ours(); err != nil {
		return Walk{}, err
	}
	from, err := m.comesBy(p, in)
	if err != nil {
		return Walk{}, fmt.Errorf("find where %s comes from: %w", p.From, err)
	}
	walk := Walk{Packet: p, In: from.Name}
	if walk.Flows, err = s.Connections.Flows(p); err != nil {
		return Walk{}, fmt.Errorf("look for connections of %s: %w", p.From, err)
	}
	own := takeOwn(p, &walk.Flows)
	if err := explore(m, from, &walk); err != nil || own == nil {
		return walk, err
	}
	established := Walk{Packet: p, In: from.Name, Flow: own, Flows: walk.Flows, Otherwise: walk.Outcomes}
	err = explore(m, from, &established)
	established.Kind = cmp.Or(established.Kind, walk.Kind)
	return established, err
}

// ours is an error if no table of ours sees packets.
func (m *memo) ours() error {
	list, err := m.Rules.Bases(m.family)
	if err != nil {
		return err
	}
	m.bases = inOrder(list)
	ours := func(b Base) bool { return place{chain: b.Chain}.ours() }
	if !slices.ContainsFunc(list, ours) {
		return ErrNoTable
	}
	return nil
}

// comesBy is the interface that the packet comes in by; none if the node sends it.
func (m *memo) comesBy(p Packet, in Link) (Link, error) {
	if in != (Link{}) {
		return in, nil
	}
	if local, err := (&way{memo: m}).local(p.From); local || err != nil {
		return Link{}, err
	}
	back, err := m.route(Way{To: p.From})
	return back.Out, err
}

// takeOwn takes the flow that the packet belongs to out of the list.
func takeOwn(p Packet, flows *[]Flow) *Flow {
	if p.FromPort == 0 {
		return nil
	}
	i := slices.IndexFunc(*flows, func(f Flow) bool { return f.Client == netip.AddrPortFrom(p.From, p.FromPort) && !f.Reopens })
	if i < 0 {
		return nil
	}
	own := (*flows)[i]
	*flows = slices.Delete(slices.Clone(*flows), i, i+1)
	return &own
}

// explore goes all ways there are.
func explore(m *memo, in Link, walk *Walk) error {
	var leaves []leaf
	c := &choices{}
	for {
		w := &way{memo: m, choices: c, packet: walk.Packet, in: in, flow: walk.Flow}
		err := w.run()
		var unsaid unsaidError
		if errors.As(err, &unsaid) {
			w.record.verdict, w.record.how = Untold, err.Error()
		} else if err != nil {
			return err
		}
		leaves = append(leaves, w.leaf())
		for _, made := range c.made {
			walk.Unseen = max(walk.Unseen, int(made.of-made.explored))
		}
		if !c.advance() {
			break
		}
	}
	walk.sum(leaves)
	return m.identify(walk)
}

// leaf is where a way ended.
type leaf struct {
	record
	probability float64
	endpoint    Endpoint
}

func (w *way) leaf() leaf {
	l := leaf{record: w.record, probability: w.choices.probability()}
	l.endpoint = Endpoint{
		Address: w.frame.destination(), Source: w.frame.source().Addr(), Probability: l.probability,
		Local: w.record.hook == Input,
	}
	if l.verdict == NotService && (l.met || w.conn.status&statusDestNAT != 0) && len(l.faults) == 0 {
		l.verdict = Delivered
	}
	if w.flow != nil && w.conn.status&statusSourceNAT != 0 {
		l.masquerade, l.why = true, "the connection was made so"
	}
	return l
}

// sum makes outcomes of leaves.
func (walk *Walk) sum(leaves []leaf) {
	for _, l := range leaves {
		walk.Service = cmp.Or(walk.Service, l.service)
		walk.Kind = cmp.Or(walk.Kind, l.kind)
		walk.Affinity = cmp.Or(walk.Affinity, l.affinity)
		walk.Faults = union(walk.Faults, l.faults)
		walk.Doubts = union(walk.Doubts, l.doubts)
		walk.add(l)
	}
	walk.Steps = steps(leaves)
	for i := range walk.Outcomes {
		list := walk.Outcomes[i].Endpoints
		slices.SortStableFunc(list, func(a, b Endpoint) int { return cmp.Compare(b.Probability, a.Probability) })
	}
	slices.SortStableFunc(walk.Outcomes, func(a, b Outcome) int { return cmp.Compare(b.Probability, a.Probability) })
}

// add adds a leaf to the outcome that it belongs to.
func (walk *Walk) add(l leaf) {
	i := slices.IndexFunc(walk.Outcomes, l.belongsTo)
	if i < 0 {
		i = len(walk.Outcomes)
		walk.Outcomes = append(walk.Outcomes, Outcome{Verdict: l.verdict, Masquerade: l.masquerade, Why: l.why, How: l.how, By: l.by, Because: l.because})
	}
	o := &walk.Outcomes[i]
	o.Probability += l.probability
	if !l.verdict.Arrives() {
		return
	}
	same := func(e Endpoint) bool { return e.Address == l.endpoint.Address && e.Source == l.endpoint.Source }
	if j := slices.IndexFunc(o.Endpoints, same); j >= 0 {
		o.Endpoints[j].Probability += l.probability
		return
	}
	o.Endpoints = append(o.Endpoints, l.endpoint)
}

func (l leaf) belongsTo(o Outcome) bool {
	sameBy := l.by == nil && o.By == nil || l.by != nil && o.By != nil && *l.by == *o.By
	return l.verdict == o.Verdict && l.masquerade == o.Masquerade && l.why == o.Why && l.how == o.How && sameBy
}

// union adds what is new.
func union(all, more []string) []string {
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
