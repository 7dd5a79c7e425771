package nft

import (
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// A frontendList is the frontends of a state, sorted by match. It is no hash table because
// a first load and a comparison with the kernel need the order, in which the ports of a
// ClusterIP are also side by side, and because a list of pointers takes a fraction of the
// time and the memory: of a first load, hash tables would be a third.
type frontendList []*frontendState

// index returns where the frontend of a match is, or where it belongs and false.
func (l frontendList) index(m model.Match) (int, bool) {
	return slices.BinarySearchFunc(l, m, func(f *frontendState, m model.Match) int { return f.Match.Compare(m) })
}

// at returns the frontend of a match, or nil.
func (l frontendList) at(m model.Match) *frontendState {
	if i, found := l.index(m); found {
		return l[i]
	}
	return nil
}

// pools returns the number of pools with that ClusterIP.
func (l frontendList) pools(f model.Family, clusterIP netip.Addr) (n int) {
	i, _ := l.index(model.Match{Family: f, Addr: clusterIP})
	for ; i < len(l) && l[i].Match.Addr == clusterIP; i++ {
		if l[i].OwnsPool() {
			n++
		}
	}
	return n
}

// change sets some frontends and deletes others, in place if there is room.
func (l frontendList) change(set []*frontendState, gone []model.Match) frontendList {
	var added frontendList
	for _, f := range set {
		if i, found := l.index(f.Match); found {
			l[i] = f
		} else {
			added = append(added, f)
		}
	}
	return l.remove(gone).insert(added)
}

// remove deletes the frontends of these matches, if they exist.
func (l frontendList) remove(gone []model.Match) frontendList {
	var at []int
	for _, m := range gone {
		if i, found := l.index(m); found {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return l
	}
	for _, i := range at {
		l[i] = nil
	}
	l = slices.DeleteFunc(l, func(f *frontendState) bool { return f == nil })
	if cap(l) > minListRoom && len(l) < cap(l)/4 {
		return slices.Clip(slices.Clone(l))
	}
	return l
}

// minListRoom is a capacity that is not worth a copy of a list to free it.
const minListRoom = 4096

// insert adds frontends that the list does not have. It works from the end, so that each
// pointer moves once.
func (l frontendList) insert(added frontendList) frontendList {
	added.sort()
	end := len(l)
	l = append(l, added...)
	for i, f := range slices.Backward(added) {
		at, _ := l[:end].index(f.Match)
		copy(l[at+i+1:], l[at:end])
		l[at+i] = f
		end = at
	}
	return l
}

// sort sorts a list, which most are already.
func (l frontendList) sort() {
	byMatch := func(a, b *frontendState) int { return a.Match.Compare(b.Match) }
	if !slices.IsSortedFunc(l, byMatch) {
		slices.SortFunc(l, byMatch)
	}
}
