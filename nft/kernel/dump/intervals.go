package dump

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// intervals are the bounds of intervals, sorted; where one ends and another begins, the end
// is first.
type intervals []element

// readIntervals reads a set of intervals.
func (r *Rules) readIntervals(s *set) (*intervals, error) {
	var list []element
	err := r.get(unix.NFT_MSG_GETSETELEM, netlink.Dump, FamilyNumber(s.table.Family), s.encodeName,
		func(d *attr.Decoder, m message) {
			eachElement(d, m, func(e element) { list = append(list, e) })
		})
	return newIntervals(list), err
}

// newIntervals returns the intervals of a set by its elements.
func newIntervals(list []element) *intervals {
	// without the catch-all element
	out := intervals(slices.DeleteFunc(list, func(e element) bool { return e.key == nil }))
	slices.SortFunc(out, func(a, b element) int {
		return cmp.Or(bytes.Compare(a.key, b.key), -cmp.Compare(endRank(a), endRank(b)))
	})
	return &out
}

// endRank returns 1 for the end of an interval.
func endRank(e element) int {
	if e.end {
		return 1
	}
	return 0
}

// find returns the interval that a key is in: the last bound at the key or before it must be
// a beginning.
func (list intervals) find(key []byte) lookupResult {
	i, _ := slices.BinarySearchFunc(list, key, func(e element, key []byte) int {
		if bytes.Compare(e.key, key) <= 0 {
			return -1
		}
		return 1
	})
	if i == 0 || list[i-1].end {
		return lookupResult{}
	}
	return lookupResult{list[i-1].Element, true}
}
