package top

import (
	"cmp"
	"slices"
)

// gap is how many blanks follow each column.
const gap = 2

// leastText is how narrow a column of text may become: enough to tell names apart.
const leastText = 12

// mark is the width of the sign before the selected row, which stands in the first
// column.
const mark = 2

// luxury is the weight of the columns that come only when names are whole.
const luxury = 3

// fit returns how wide each column is in so much room, zero for those that there is
// no room for; the heaviest stay. Text first gets the least that can be read, and
// then, the heaviest first, as much as it needs.
func fit(columns []column, s *sheet, room int) []int {
	heaviest := byWeight(columns)
	out, needs := make([]int, len(columns)), make([]int, len(columns))
	room -= mark
	grow := func(names bool) {
		for _, i := range heaviest {
			if out[i] > 0 && (columns[i].name >= 0 || !names) {
				more := max(0, min(needs[i]-out[i], room))
				out[i] += more
				room -= more
			}
		}
	}
	for n, i := range heaviest {
		c := &columns[i]
		if !c.shown(s) {
			continue
		}
		if c.weight <= luxury {
			grow(true)
		}
		needs[i] = need(c, s)
		least := needs[i]
		if c.width == 0 {
			least = min(least, leastText)
		}
		if n > 0 && least+gap > room {
			break // what is lighter does not take the place of what is heavier
		}
		out[i] = max(1, min(least, room-gap))
		room -= out[i] + gap
	}
	grow(false)
	return out
}

// longStatus is as much as a status may ask for.
const longStatus = 200

// need is how wide a column would be, given room.
func need(c *column, s *sheet) int {
	title := width(c.title) + 1 // with the sign of the order
	switch {
	case c.width > 0:
		return max(c.width, title)
	case c.name >= 0:
		return max(s.widest[c.name], title)
	}
	return longStatus
}

// byWeight are the places of columns, the heaviest first.
func byWeight(columns []column) []int {
	out := make([]int, len(columns))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(columns[b].weight, columns[a].weight) })
	return out
}
