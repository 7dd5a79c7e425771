package nft

import (
	"iter"
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// A frontendList is the frontends of a state, sorted by match. It is no hash table because
// a first load and a comparison with the kernel need the order, in which the ports of a
// ClusterIP are also side by side, and because a list of pointers takes a fraction of the
// time and the memory: of a first load, hash tables would be a third. It is in pieces, so
// that one frontend more or less moves few others.
type frontendList struct {
	pieces [][]*frontendState // none is empty
	len    int
}

// pieceLen is the length of the pieces of a new list, and half of the greatest.
const pieceLen = 512

// newFrontendList returns a list of frontends that are sorted. It keeps the slice.
func newFrontendList(sorted []*frontendState) frontendList {
	return frontendList{slices.Collect(slices.Chunk(sorted, pieceLen)), len(sorted)}
}

// clone returns a copy, which later changes do not affect.
func (l *frontendList) clone() frontendList {
	out := frontendList{slices.Clone(l.pieces), l.len}
	for i, piece := range out.pieces {
		out.pieces[i] = slices.Clone(piece)
	}
	return out
}

// all ranges over the frontends in their order.
func (l *frontendList) all() iter.Seq[*frontendState] { return l.from(0, 0) }

// from is all from a place on.
func (l *frontendList) from(piece, i int) iter.Seq[*frontendState] {
	return func(yield func(*frontendState) bool) {
		for ; piece < len(l.pieces); piece, i = piece+1, 0 {
			for _, f := range l.pieces[piece][i:] {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// find returns the piece and the place in it where the frontend of a match is, or where it
// belongs and false.
func (l *frontendList) find(m model.Match) (piece, i int, found bool) {
	piece, found = slices.BinarySearchFunc(l.pieces, m, func(piece []*frontendState, m model.Match) int {
		return piece[0].Match.Compare(m)
	})
	if found || piece == 0 {
		return piece, 0, found
	}
	piece--
	i, found = slices.BinarySearchFunc(l.pieces[piece], m, func(f *frontendState, m model.Match) int {
		return f.Match.Compare(m)
	})
	return piece, i, found
}

// at returns the frontend of a match, or nil.
func (l *frontendList) at(m model.Match) *frontendState {
	if piece, i, found := l.find(m); found {
		return l.pieces[piece][i]
	}
	return nil
}

// pools returns the number of pools with that ClusterIP.
func (l *frontendList) pools(f model.Family, clusterIP netip.Addr) (n int) {
	piece, i, _ := l.find(model.Match{Family: f, Addr: clusterIP})
	for p := range l.from(piece, i) {
		if p.Match.Addr != clusterIP {
			break
		}
		if p.OwnsPool() {
			n++
		}
	}
	return n
}

// set adds a frontend or replaces the one of the same match.
func (l *frontendList) set(f *frontendState) {
	piece, i, found := l.find(f.Match)
	switch {
	case found:
		l.pieces[piece][i] = f
		return
	case len(l.pieces) == 0:
		l.pieces = append(l.pieces, nil)
	}
	l.len++
	with := slices.Insert(l.pieces[piece], i, f)
	l.pieces[piece] = with
	if len(with) > 2*pieceLen {
		l.pieces[piece] = slices.Clone(with[:pieceLen])
		l.pieces = slices.Insert(l.pieces, piece+1, slices.Clone(with[pieceLen:]))
	}
}

// remove removes the frontend of a match, if there is one.
func (l *frontendList) remove(m model.Match) {
	piece, i, found := l.find(m)
	if !found {
		return
	}
	l.len--
	l.pieces[piece] = slices.Delete(l.pieces[piece], i, i+1)
	if len(l.pieces[piece]) == 0 {
		l.pieces = slices.Delete(l.pieces, piece, piece+1)
	}
}

// change sets some frontends and removes others.
func (l *frontendList) change(set []*frontendState, gone []model.Match) {
	for _, m := range gone {
		l.remove(m)
	}
	for _, f := range set {
		l.set(f)
	}
}
