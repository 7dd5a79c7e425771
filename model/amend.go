package model

import (
	"net/netip"
	"slices"
)

// A roll is amended if there are fewDifferences, or many times as many candidates:
// to call it anew costs several times less for each of them.
const (
	fewDifferences = 100
	manyTimes      = 8
)

// turn is what happened to slices since a roll was up to date.
type turn struct {
	before, now places
	touched     []uint32 // where slices changed, each once; both have these places
	node        *Node
}

// update brings the roll and its lists up to date.
func (r *roll) update(t *turn) {
	gone, fresh := t.differences(r.offer)
	n := len(gone) + len(fresh)
	switch {
	case n == 0:
	case n > fewDifferences && n > len(r.all)/manyTimes, len(r.all) < cap(r.all)/4:
		r.call(t.now, t.node)
		r.choose(t.now, r.choice.flows)
	default:
		r.amend(t, gone, fresh)
	}
}

// differences are the candidates who made the offer before and those who make it
// now, without who is the same at the same place. Both are sorted.
func (t *turn) differences(o offer) (gone, fresh []candidate) {
	for _, i := range t.touched {
		was, is := &t.before[i], &t.now[i]
		sameOffer := was.Family == is.Family && slices.Equal(was.Ports, is.Ports)
		differs := func(k int) bool {
			both := k < len(was.Endpoints) && k < len(is.Endpoints)
			return !both || !sameOffer || was.Endpoints[k] != is.Endpoints[k]
		}
		gone = o.append(gone, was, i, differs)
		fresh = o.append(fresh, is, i, differs)
	}
	slices.SortFunc(gone, t.before.compare)
	slices.SortFunc(fresh, t.now.compare)
	return gone, fresh
}

// append adds the candidates of the slice at place i whose endpoints are wanted.
// They have no traits yet.
func (o offer) append(to []candidate, s *EndpointSlice, i uint32, wanted func(int) bool) []candidate {
	for number := range o.numbers(s) {
		for k := range s.Endpoints {
			if wanted(k) {
				to = append(to, candidate{slice: i, index: uint32(k), number: number})
			}
		}
	}
	return to
}

// amend strikes off who is gone and enters who is fresh.
func (r *roll) amend(t *turn, gone, fresh []candidate) {
	shifts := make([]shift, 0, len(gone)+len(fresh))
	for _, c := range gone {
		shifts = append(shifts, shift{at: t.before.addr(c)})
	}
	for _, c := range fresh {
		shifts = append(shifts, shift{at: t.now.addr(c)})
	}
	slices.SortFunc(shifts, func(a, b shift) int { return a.at.Compare(b.at) })
	shifts = slices.CompactFunc(shifts, func(a, b shift) bool { return a.at == b.at })
	for i := range shifts {
		shifts[i].before = t.before.traitsAt(r.all, shifts[i].at)
	}
	r.all = t.before.strike(r.all, gone)
	r.all = t.now.enter(r.all, fresh)
	for i := range shifts {
		s := &shifts[i]
		s.after = t.now.settle(r.all, s.at, t.node)
		r.tally.remove(s.before)
		r.tally.add(s.after)
	}
	r.rechoose(t.now, shifts)
}

// rechoose brings the lists up to date after shifts.
func (r *roll) rechoose(p places, shifts []shift) {
	if r.tally.choice(r.choice.flows) != r.choice {
		r.choose(p, r.choice.flows)
		return
	}
	was := r.chosen
	r.chosen.Cluster = amended(was.Cluster, shifts, r.choice.cluster)
	r.chosen.Local = amended(was.Local, shifts, r.choice.local)
	r.chosen.hasAny = r.anywhere()
	r.chosen.Flows = r.flows(func() []netip.AddrPort { return amended(was.Flows, shifts, isServing, isReady) })
	if len(concerning(shifts, r.choice.onNode()...)) > 0 {
		r.chosen.OnNode = r.onNode(p)
	}
}
