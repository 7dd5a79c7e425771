package inspect

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// hasIntervals are the ends of intervals, sorted: where one ends and another begins, the
// end first.
type intervals []element

// readIntervals lists a set of intervals.
func (r *Rules) readIntervals(s *set) (*intervals, error) {
	by, err := encode(s.name)
	if err != nil {
		return nil, err
	}
	var list intervals
	err = r.get(unix.NFT_MSG_GETSETELEM, netlink.Dump, familyNumber(s.table.Family), by, func(m netlink.Message) error {
		return eachElement(m, func(e element) {
			if e.key != nil { // else it is for all other keys
				list = append(list, e)
			}
		})
	})
	slices.SortFunc(list, func(a, b element) int {
		return cmp.Or(bytes.Compare(a.key, b.key), -cmp.Compare(isEnd(a), isEnd(b)))
	})
	return &list, err
}

func isEnd(e element) int {
	if e.end {
		return 1
	}
	return 0
}

// find is the interval that a key is in: the last end at the key or before it must be
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
