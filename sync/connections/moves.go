package connections

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// A moveTracker finds frontends that moved from one Service port to another, while the
// kernel counts both in the same elements.
type moveTracker struct {
	// former are the last owners of frontends that are no Service port's now, for as
	// long as the kernel may have elements of them.
	former map[model.Match]formerOwner
	moved  [len(model.Families)]sets.Set[model.Match] // since the last read
	peak   int                                        // of former
}

// A formerOwner is a Service port that had a frontend, so many clean-ups ago.
type formerOwner struct {
	port     Port
	cleanUps int
}

// keepCleanUps is after how many clean-ups the kernel has no element of a removed
// frontend: the first finds it, the second removes it, and one listing may miss it.
const keepCleanUps = 3

func newMoveTracker() moveTracker {
	m := moveTracker{former: map[model.Match]formerOwner{}}
	for f := range m.moved {
		m.moved[f] = sets.New[model.Match]()
	}
	return m
}

// released records that a frontend is no longer the Service port's.
func (t *moveTracker) released(m model.Match, port Port) { t.former[m] = formerOwner{port: port} }

// assigned records that a frontend is the Service port's now.
func (t *moveTracker) assigned(m model.Match, port Port) {
	if was, known := t.former[m]; known && was.port != port {
		t.moved[m.Family].Insert(m)
	}
	delete(t.former, m)
}

func (t *moveTracker) anyMoved() bool {
	return slices.ContainsFunc(t.moved[:], func(of sets.Set[model.Match]) bool { return len(of) > 0 })
}

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

// removeMoved removes the elements of frontends that moved and returns the rest of the
// listing. Elements that cannot be removed are the baseline of later reads.
func (c *Connections) removeMoved(f model.Family, list []nft.ConnectionCount) (rest []nft.ConnectionCount, err error) {
	moved := c.tracker.moves.moved[f]
	if len(moved) == 0 {
		return list, nil
	}
	var remove []nft.ConnectionCount
	for _, counted := range list {
		if !moved.Has(c.tracker.matchOf(counted.Destination)) {
			rest = append(rest, counted)
			continue
		}
		remove = append(remove, counted)
		c.tracker.last[f][pair{counted.Destination, counted.Endpoint}] = counted.Connections
	}
	clear(moved)
	for chunk := range slices.Chunk(remove, batchSize) {
		err = errors.Join(err, c.apply(f, &change{remove: chunk}))
	}
	return rest, err
}
