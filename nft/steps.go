package nft

import (
	"maps"
	"slices"
)

// A stepSplitter divides a batch into changes before the switch, the switch, and changes
// after it. Endpoints may be replaced at any time, the old and the new one in the same step.
type stepSplitter struct {
	added, deleted map[SetID]map[Key]struct{} // keys of endpoints that the batch adds and deletes
	dropped        map[DeleteSet]struct{}     // sets that the batch deletes
	fresh          map[ChainID]bool           // chains that no packet reaches before the switch
	declare        Batch
	before, after  Batch
	now            Batch
	replaced       map[SetID]*elementEdit // with the same keys on both sides
}

func newDivision(b Batch) *stepSplitter {
	s := &stepSplitter{
		added: map[SetID]map[Key]struct{}{}, deleted: map[SetID]map[Key]struct{}{}, dropped: map[DeleteSet]struct{}{},
		replaced: map[SetID]*elementEdit{}, fresh: b.newChains(),
	}
	for _, op := range b {
		switch op := op.(type) {
		case DeleteSet:
			s.dropped[op] = struct{}{}
		case DeleteElements:
			note(s.deleted, op.Set, op.Elements)
		}
	}
	for _, op := range b {
		if op, adds := op.(AddElements); adds && len(s.deleted[op.Set]) > 0 {
			note(s.added, op.Set, op.Elements)
		}
	}
	for _, op := range b {
		s.place(op)
	}
	return s
}

func note(keys map[SetID]map[Key]struct{}, id SetID, list []Element) {
	if !id.Kind.hasEndpoints() {
		return
	}
	if keys[id] == nil {
		keys[id] = make(map[Key]struct{}, len(list))
	}
	for i := range list {
		keys[id][list[i].Key] = struct{}{}
	}
}

// place assigns an op, or each part of it, to its step.
func (s *stepSplitter) place(op Op) {
	switch op := op.(type) {
	case AddTable, AddCounter:
		s.declare = append(s.declare, op)
		return
	// The kernel walks all elements of a map for each new chain with a rule that looks it up
	// (nf_tables_bind_set), so a first load is much faster if its maps are still empty then.
	case AddChain:
		if s.fresh[op.Chain] {
			s.declare = s.declare.withNew(op)
			return
		}
	case FlushChain:
		if s.fresh[ChainNamed(op.Family, op.Name)] {
			s.declare = append(s.declare, op)
			return
		}
	case AddRule:
		if s.fresh[op.Chain] {
			s.declare = append(s.declare, op)
			return
		}
	case AddSet:
		if !s.isDropped(op.Set) {
			s.declare = append(s.declare, op)
			return
		}
	case AddFrontends:
		if s.divides(op.Set) {
			s.before = append(s.before, op)
			return
		}
	case AddElements:
		if s.divides(op.Set) {
			free, bound := divide(op.Elements, s.deleted[op.Set])
			if len(free) > 0 {
				s.before = append(s.before, AddElements{op.Set, free})
			}
			r := s.replacing(op.Set)
			r.add = append(r.add, bound...)
			return
		}
	case DeleteElements:
		if s.divides(op.Set) {
			free, bound := divide(op.Elements, s.added[op.Set])
			if len(free) > 0 {
				s.after = append(s.after, DeleteElements{op.Set, free})
			}
			r := s.replacing(op.Set)
			r.remove = append(r.remove, bound...)
			return
		}
	}
	s.now = append(s.now, op)
}

func (s *stepSplitter) isDropped(id SetID) bool {
	_, dropped := s.dropped[DeleteSet{id.Family, id.Name()}]
	return dropped
}

// divides reports whether elements of the set need not be in the switch: endpoints in a map
// that exists before and after.
func (s *stepSplitter) divides(id SetID) bool {
	return id.Kind.hasEndpoints() && !s.isDropped(id)
}

// replacing is the edit of replaced endpoints in a set.
func (s *stepSplitter) replacing(id SetID) *elementEdit {
	if s.replaced[id] == nil {
		s.replaced[id] = &elementEdit{}
	}
	return s.replaced[id]
}

// divide separates endpoints whose keys are not among the others of their set.
func divide(list []Element, others map[Key]struct{}) (free, bound []Element) {
	if len(others) == 0 {
		return list, nil
	}
	for _, e := range list {
		if _, replaced := others[e.Key]; replaced {
			bound = append(bound, e)
		} else {
			free = append(free, e)
		}
	}
	return free, bound
}

// steps returns the transactions. All but the switch have at most limit elements.
func (s *stepSplitter) steps(limit int) []Batch {
	steps, replaced := s.before.pieces(limit), s.replacements(limit)
	// Numbers must not be replaced before their endpoints are added.
	if last := len(steps) - 1; last >= 0 && len(replaced) == 0 && steps[last].Counts().Added < limit {
		s.now = append(steps[last], s.now...) // the remainder is in the switch
		steps = steps[:last]
	}
	if len(steps) > 0 {
		steps[0] = append(s.declare, steps[0]...)
	} else {
		s.now = append(s.declare, s.now...)
	}
	steps = append(steps, replaced...)
	after := s.after.pieces(limit)
	if len(s.now) == 0 {
		return append(steps, after...)
	}
	return append(append(steps, s.now), after...)
}

// replacements returns the steps that replace endpoints; the remainder is in the switch.
func (s *stepSplitter) replacements(limit int) (steps []Batch) {
	var step Batch
	most := max(1, limit/2)
	room := most
	for _, id := range slices.SortedFunc(maps.Keys(s.replaced), compareSets) {
		r := s.replaced[id]
		for len(r.add) > 0 {
			n := min(room, len(r.add))
			step = append(step, DeleteElements{id, r.remove[:n]}, AddElements{id, r.add[:n]})
			r.add, r.remove = r.add[n:], r.remove[n:]
			if room -= n; room == 0 {
				steps, step, room = append(steps, step), nil, most
			}
		}
	}
	s.now = append(step, s.now...)
	return steps
}

// pieces divides ops on elements into batches of at most limit elements.
func (b Batch) pieces(limit int) []Batch {
	var out []Batch
	var piece Batch
	room := limit
	for _, op := range b {
		for op != nil {
			var part Op
			part, op = divideOp(op, room)
			piece = append(piece, part)
			c := (Batch{part}).Counts()
			if room -= c.Added + c.Deleted; room == 0 {
				out, piece, room = append(out, piece), nil, limit
			}
		}
	}
	if len(piece) > 0 {
		out = append(out, piece)
	}
	return out
}

// divideOp splits off the first elements of an op, at most n; the rest may be nil.
func divideOp(op Op, n int) (first, rest Op) {
	switch op := op.(type) {
	case AddElements:
		if len(op.Elements) > n {
			return AddElements{op.Set, op.Elements[:n]}, AddElements{op.Set, op.Elements[n:]}
		}
	case DeleteElements:
		if len(op.Elements) > n {
			return DeleteElements{op.Set, op.Elements[:n]}, DeleteElements{op.Set, op.Elements[n:]}
		}
	case AddFrontends:
		if op.Len() > n {
			return op.divide(n)
		}
	}
	return op, nil
}
