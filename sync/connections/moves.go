package connections

import (
	"errors"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// moves are addresses and ports that went from one Service port to another. The kernel
// goes on counting in the same elements.
type moves struct {
	// former are whose those were that are nobody's now, for as long as the kernel
	// may have elements of them.
	former map[model.Match]owner
	// moved are those that are another's since the last reading.
	moved [len(model.Families)]map[model.Match]struct{}
	peak  int // of former
}

// owner is a Service port that had an address and port, and how many sweeps ago.
type owner struct {
	port   Port
	sweeps int
}

// remembered is after how many sweeps the kernel has no element any more of what is
// nobody's: it is found in the first and removed in the second. A listing may miss it
// once.
const remembered = 3

func newMoves() moves {
	m := moves{former: map[model.Match]owner{}}
	for f := range m.moved {
		m.moved[f] = map[model.Match]struct{}{}
	}
	return m
}

// from notes that a Service port has no longer what it had.
func (v *moves) from(m model.Match, port Port) { v.former[m] = owner{port: port} }

// to notes that it is a Service port's now.
func (v *moves) to(m model.Match, port Port) {
	if was, known := v.former[m]; known && was.port != port {
		v.moved[m.Family][m] = struct{}{}
	}
	delete(v.former, m)
}

// any reports whether something has moved since the last reading.
func (v *moves) any() bool {
	return slices.ContainsFunc(v.moved[:], func(of map[model.Match]struct{}) bool { return len(of) > 0 })
}

// age notes that a sweep has passed.
func (s *state) age(f model.Family) {
	for m, was := range s.moves.former {
		if m.Family != f {
			continue
		}
		if was.sweeps++; was.sweeps < remembered {
			s.moves.former[m] = was
		} else {
			delete(s.moves.former, m)
		}
	}
	s.moves.former = model.Shrink(s.moves.former, &s.moves.peak)
}

// settle removes what was counted for addresses and ports before they moved, and
// returns the rest. Where that cannot be removed, it is what later readings are
// compared with.
func (c *Connections) settle(f model.Family, list []nft.Counted) (rest []nft.Counted, err error) {
	moved := c.state.moves.moved[f]
	if len(moved) == 0 {
		return list, nil
	}
	var others []nft.Counted
	for _, counted := range list {
		if _, ok := moved[c.state.meets(counted.Asked)]; !ok {
			rest = append(rest, counted)
			continue
		}
		others = append(others, counted)
		c.state.last[f][pair{counted.Asked, counted.Endpoint}] = counted.Connections
	}
	clear(moved)
	for some := range slices.Chunk(others, atOnce) {
		err = errors.Join(err, c.apply(f, &change{remove: some}))
	}
	return rest, err
}
