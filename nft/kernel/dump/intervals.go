package dump

import (
	"bytes"
	"cmp"
	"slices"

	"kube-vmap/nft/simulate"
)

// intervals are the bounds of intervals, sorted; where one ends and another begins, the end
// is first.
type intervals []element

func (c *contents) addIntervals(list []element) {
	c.intervals = slices.DeleteFunc(list, func(e element) bool {
		if e.key == nil {
			c.catchAll = &e.Element
		}
		return e.key == nil
	})
	slices.SortFunc(c.intervals, func(a, b element) int {
		return cmp.Or(bytes.Compare(a.key, b.key), -cmp.Compare(endRank(a), endRank(b)))
	})
}

func endRank(e element) int {
	if e.end {
		return 1
	}
	return 0
}

// find returns the interval that a key is in: the last bound at the key or before it must be
// a beginning.
func (list intervals) find(key []byte) *simulate.Element {
	i, _ := slices.BinarySearchFunc(list, key, func(e element, key []byte) int {
		if bytes.Compare(e.key, key) <= 0 {
			return -1
		}
		return 1
	})
	if i == 0 || list[i-1].end {
		return nil
	}
	return &list[i-1].Element
}
