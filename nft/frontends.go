package nft

import (
	"iter"
	"net/netip"
	"slices"
	"sort"

	"kube-vmap/model"
)

// A frontendList is the frontends of a state, sorted by match. It is not a map because a
// first load and a comparison with the kernel need the order, which also puts the ports of
// a ClusterIP side by side. A list of pointers also takes a fraction of the time and the
// memory: hash tables would be a third of a first load. It is in pieces, so adding or
// removing a frontend moves few others.
type frontendList struct {
	pieces []listPiece // none is empty
	len    int
}

// A listPiece is a part of a list, with the match of its first frontend: a search among
// matches costs fewer memory accesses than among frontends.
type listPiece struct {
	first model.Match
	list  []*frontendState
}

// pieceLen is the length of the pieces of a new list, and half of the greatest.
const pieceLen = 64

// piece returns the piece of a list that is not empty.
func piece(list []*frontendState) listPiece { return listPiece{list[0].Match, list} }

// newFrontendList returns a list of frontends that are sorted. It keeps the slice.
func newFrontendList(sorted []*frontendState) frontendList {
	l := frontendList{len: len(sorted)}
	for list := range slices.Chunk(sorted, pieceLen) {
		l.pieces = append(l.pieces, piece(list))
	}
	return l
}

// clone returns a copy, which later changes do not affect.
func (l *frontendList) clone() frontendList {
	out := frontendList{slices.Clone(l.pieces), l.len}
	for i := range out.pieces {
		out.pieces[i].list = slices.Clone(out.pieces[i].list)
	}
	return out
}

// all ranges over the frontends in their order.
func (l *frontendList) all() iter.Seq[*frontendState] { return l.from(0, 0) }

// from is all from a place on.
func (l *frontendList) from(n, i int) iter.Seq[*frontendState] {
	return func(yield func(*frontendState) bool) {
		for ; n < len(l.pieces); n, i = n+1, 0 {
			for _, f := range l.pieces[n].list[i:] {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// A place is where the frontend of a match is in a list, or where it belongs: the number of a
// piece, and an index of that.
type place struct {
	n, i  int
	found bool
}

func (l *frontendList) find(m model.Match) place {
	n := sort.Search(len(l.pieces), func(n int) bool { return l.pieces[n].first.Compare(m) > 0 })
	if n == 0 {
		return place{}
	}
	n--
	list := l.pieces[n].list
	i := sort.Search(len(list), func(i int) bool { return list[i].Match.Compare(m) >= 0 })
	return place{n, i, i < len(list) && list[i].Match == m}
}

// at returns the frontend of a match, or nil.
func (l *frontendList) at(m model.Match) *frontendState { return l.in(l.find(m)) }

func (l *frontendList) in(p place) *frontendState {
	if !p.found {
		return nil
	}
	return l.pieces[p.n].list[p.i]
}

// An addressCount counts the frontends of an address, which is not a node port's.
type addressCount struct{ clusterIPs, externals, answering int }

// addressCount counts the frontend itself, which may be nil.
func (p *frontendState) addressCount() (n addressCount) {
	switch {
	case p == nil || p.nodePort():
		return n
	case p.IsClusterIP():
		n.clusterIPs = 1
	default:
		n.externals = 1
	}
	if p.answersPing {
		n.answering = 1
	}
	return n
}

// plus adds another count, or subtracts it if step is negative.
func (n addressCount) plus(o addressCount, step int) addressCount {
	return addressCount{n.clusterIPs + step*o.clusterIPs, n.externals + step*o.externals, n.answering + step*o.answering}
}

// needs reports whether a set of addresses has such an address.
func (n addressCount) needs(kind SetKind) bool {
	switch kind {
	case SetClusterIPs:
		return n.clusterIPs > 0
	case SetExternalIPs:
		return n.externals > 0
	}
	return n.clusterIPs+n.externals > 0 && n.answering == 0
}

// countAt counts the frontends of an address.
func (l *frontendList) countAt(a netip.Addr) (n addressCount) {
	first := l.find(model.Match{Family: model.FamilyOf(a), Addr: a})
	for p := range l.from(first.n, first.i) {
		if p.Match.Addr != a {
			break
		}
		n = n.plus(p.addressCount(), 1)
	}
	return n
}

// add adds a frontend that the list does not have.
func (l *frontendList) add(f *frontendState) {
	if len(l.pieces) == 0 {
		l.pieces = append(l.pieces, listPiece{})
	}
	l.len++
	at := l.find(f.Match)
	with := slices.Insert(l.pieces[at.n].list, at.i, f)
	l.pieces[at.n] = piece(with)
	if len(with) > 2*pieceLen {
		l.pieces[at.n].list = slices.Clone(with[:pieceLen])
		l.pieces = slices.Insert(l.pieces, at.n+1, piece(slices.Clone(with[pieceLen:])))
	}
}

// remove removes the frontend of a match, if there is one.
func (l *frontendList) remove(m model.Match) {
	at := l.find(m)
	if !at.found {
		return
	}
	l.len--
	if rest := slices.Delete(l.pieces[at.n].list, at.i, at.i+1); len(rest) > 0 {
		l.pieces[at.n] = piece(rest)
	} else {
		l.pieces = slices.Delete(l.pieces, at.n, at.n+1)
	}
}

// A placedFrontend is a frontend and its place in a list.
type placedFrontend struct {
	*frontendState
	place place
}

// change sets some frontends, whose places are those before, and removes others.
func (l *frontendList) change(set []placedFrontend, removed []model.Match) {
	for _, f := range set {
		if f.place.found {
			l.pieces[f.place.n].list[f.place.i] = f.frontendState
		}
	}
	for _, m := range removed {
		l.remove(m)
	}
	for _, f := range set {
		if !f.place.found {
			l.add(f.frontendState)
		}
	}
}
