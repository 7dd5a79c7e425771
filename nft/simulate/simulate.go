package simulate

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
	if err := m.locate(&walk, from); err != nil {
		return Walk{}, fmt.Errorf("find where %s is: %w", p.From, err)
	}
	if walk.Flows, err = s.Connections.Flows(p); err != nil {
		return Walk{}, fmt.Errorf("look for connections of %s: %w", p.From, err)
	}
	own := takeOwn(p, &walk.Flows)
	if err := explore(m, from, &walk); err != nil || own == nil {
		return walk, err
	}
	established := Walk{
		Packet: p, In: from.Name, Via: walk.Via, ToNode: walk.ToNode,
		Flow: own, Flows: walk.Flows, Otherwise: walk.Outcomes, OtherwiseUnseen: walk.Unseen,
	}
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

// locate finds out where the client is, and whether it asks for the node itself.
func (m *memo) locate(walk *Walk, from Link) (err error) {
	if walk.ToNode, err = (&way{memo: m}).local(walk.Packet.To.Addr()); err != nil || from == (Link{}) {
		return err
	}
	back, err := m.route(Way{To: walk.Packet.From})
	if errors.Is(err, ErrNoRoute) {
		return nil // the interface was named
	}
	walk.Via = back.Via
	return err
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

// explore goes all ways there are, or so many of them that the rest is only counted.
func explore(m *memo, in Link, walk *Walk) error {
	c, s := &choices{}, &sum{Walk: walk}
	for more := true; more; more = c.advance() {
		if err := m.interrupted(); err != nil {
			return err
		}
		w := &way{memo: m, choices: c, packet: walk.Packet, in: in, flow: walk.Flow}
		err := w.run()
		var unsaid unsaidError
		if errors.As(err, &unsaid) {
			w.record.verdict, w.record.how = Untold, err.Error()
		} else if err != nil {
			return err
		}
		s.add(w.leaf())
		s.left(c)
	}
	s.end()
	return m.identify(walk)
}

// interrupted is an error if nobody waits for an answer any more.
func (m *memo) interrupted() error {
	if m.Interrupted == nil {
		return nil
	}
	if err := m.Interrupted(); err != nil {
		return fmt.Errorf("go the ways of the packet: %w", err)
	}
	return nil
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
