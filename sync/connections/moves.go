package connections

import (
	"errors"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// moveTracker are addresses and ports that went from one Service port to another. The kernel
// goes on counting in the same elements.
type moveTracker struct {
	// former are whose those were that are nobody's now, for as long as the kernel
	// may have elements of them.
	former map[model.Match]formerOwner
	// moved are those that are another's since the last reading.
	moved [len(model.Families)]map[model.Match]struct{}
	peak  int // of former
}

// formerOwner is a Service port that had an address and port, and how many sweeps ago.
type formerOwner struct {
	port     Port
	cleanUps int
}

// keepCleanUps is after how many sweeps the kernel has no element any more of what is
// nobody's: it is found in the first and removed in the second. A listing may miss it
// once.
const keepCleanUps = 3

func newMoveTracker() moveTracker {
	m := moveTracker{former: map[model.Match]formerOwner{}}
	for f := range m.moved {
		m.moved[f] = map[model.Match]struct{}{}
	}
	return m
}

// released notes that a Service port has no longer what it had.
func (v *moveTracker) released(m model.Match, port Port) { v.former[m] = formerOwner{port: port} }

// assigned notes that it is a Service port's now.
func (v *moveTracker) assigned(m model.Match, port Port) {
	if was, known := v.former[m]; known && was.port != port {
		v.moved[m.Family][m] = struct{}{}
	}
	delete(v.former, m)
}

// anyMoved reports whether something has moved since the last reading.
func (v *moveTracker) anyMoved() bool {
	return slices.ContainsFunc(v.moved[:], func(of map[model.Match]struct{}) bool { return len(of) > 0 })
}

// age notes that a sweep has passed.
func (s *tracker) age(f model.Family) {
	for m, was := range s.moves.former {
		if m.Family != f {
			continue
		}
		if was.cleanUps++; was.cleanUps < keepCleanUps {
			s.moves.former[m] = was
		} else {
			delete(s.moves.former, m)
		}
	}
	s.moves.former = model.Shrink(s.moves.former, &s.moves.peak)
}

// removeMoved removes what was counted for addresses and ports before they moved, and
// returns the rest. Where that cannot be removed, it is what later readings are
// compared with.
func (c *Connections) removeMoved(f model.Family, list []nft.ConnectionCount) (rest []nft.ConnectionCount, err error) {
	moved := c.tracker.moves.moved[f]
	if len(moved) == 0 {
		return list, nil
	}
	var others []nft.ConnectionCount
	for _, counted := range list {
		if _, ok := moved[c.tracker.matchOf(counted.Asked)]; !ok {
			rest = append(rest, counted)
			continue
		}
		others = append(others, counted)
		c.tracker.last[f][pair{counted.Asked, counted.Endpoint}] = counted.Connections
	}
	clear(moved)
	for some := range slices.Chunk(others, batchSize) {
		err = errors.Join(err, c.apply(f, &change{remove: some}))
	}
	return rest, err
}
