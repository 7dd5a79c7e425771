package simulate

import (
	"fmt"

	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// A Session simulates many packets of one family with the same sources, and asks them for each
// object once. It is for comparing rule sets. Unlike [Run] it needs no table of
// ours, begins a new connection with every packet, and notes neither steps nor reasons. A
// hash is a pick as any other, so that all of its results are explored.
type Session struct{ cache *sourceCache }

// Limits of a session, of one pick and of all walks. Services are larger than what an
// explanation can show.
const (
	sessionChoices = 8192
	sessionWalks   = 16384
)

// NewSession reads the base chains of a family.
func NewSession(s Sources, f model.Family) (*Session, error) {
	m := newSourceCache(s, f)
	m.brief, m.WithoutOurs = true, true
	return &Session{m}, m.checkTable()
}

// Explore returns all that may happen to the packet, which comes in by the interface, or is
// sent by the node if that is the zero value. Endpoints that remember the client are asked a
// second time.
func (s *Session) Explore(p Packet, in Link) (Result, error) {
	return s.explore(p, in, &choices{perPick: sessionChoices, walks: sessionWalks})
}

// Check returns what happens to the packet with the first result of each pick, as if that
// were the only one. That is enough to know whether a client is refused, whatever the
// Service's endpoints are.
func (s *Session) Check(p Packet, in Link) (Result, error) {
	r, err := s.explore(p, in, &choices{perPick: 1, walks: 1})
	for i := range r.Outcomes {
		r.Outcomes[i].Probability = 1
		for j := range r.Outcomes[i].Endpoints {
			r.Outcomes[i].Endpoints[j].Probability = 1
		}
	}
	r.Unexplored = path.Unexplored{}
	return r, err
}

func (s *Session) explore(p Packet, in Link, c *choices) (Result, error) {
	r := Result{Packet: p, In: in.Name}
	if err := explore(s.cache, in, &r, c); err != nil {
		return Result{}, fmt.Errorf("simulate %s: %w", p, err)
	}
	return r, nil
}

// asksAgain reports whether another packet of the same client gets the same endpoint, after
// a walk by which the rules have remembered it.
func (w *walk) asksAgain() (bool, error) {
	again := &walk{
		sourceCache: w.sourceCache, choices: &choices{perPick: 1, walks: 1, last: w.choices.beginsFirst()},
		packet: w.packet, in: w.in, addedElements: w.addedElements,
	}
	if err := again.run(); err != nil {
		return false, err
	}
	return again.frame.destination() == w.frame.destination(), nil
}
