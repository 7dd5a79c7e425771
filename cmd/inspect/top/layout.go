package top

import (
	"cmp"
	"slices"
)

// Gap is the space after each column.
const Gap = 2

// minTextWidth is the minimum width of a column of text, enough to recognise names.
const minTextWidth = 12

// Mark is the width of the mark before the selected row, in the first column.
const Mark = 2

// optionalWeight is the weight up to which columns appear only if all names fit.
const optionalWeight = 3

// Fit returns the width of each column; zero for the lightest ones, for which there is no
// room. Text columns first get their minimum width, and then, the heaviest first, as much
// as they need.
func Fit(columns []Column, s *Sheet, room int) []int {
	heaviest := byWeight(columns)
	out, needs := make([]int, len(columns)), make([]int, len(columns))
	room -= Mark
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
		if c.weight <= optionalWeight {
			grow(true)
		}
		needs[i] = need(c, s)
		least := needs[i]
		if c.width == 0 {
			least = min(least, minTextWidth)
		}
		if n > 0 && least+Gap > room {
			break // lighter columns do not take the room of heavier ones
		}
		out[i] = max(1, min(least, room-Gap))
		room -= out[i] + Gap
	}
	grow(false)
	return out
}

// maxStatusWidth is the maximum width of a status.
const maxStatusWidth = 200

// need returns the width of a column without limits.
func need(c *Column, s *Sheet) int {
	title := width(c.Title) + 1 // with the arrow
	switch {
	case c.width > 0:
		return max(c.width, title)
	case c.name >= 0:
		return max(s.widest[c.name], title)
	}
	return maxStatusWidth
}

// byWeight returns the indices of columns, the heaviest first.
func byWeight(columns []Column) []int {
	out := make([]int, len(columns))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(columns[b].weight, columns[a].weight) })
	return out
}
