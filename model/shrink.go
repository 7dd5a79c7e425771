package model

import "maps"

// Maps keep the memory of their largest size. The memory of deleted Services must be
// freed.
const (
	minShrinkPeak = 4096 // smaller maps are not worth a copy
	shrinkFactor  = 8    // a map smaller than this fraction of its peak is copied
)

// Shrink returns the map, or a copy if it is much smaller than its largest size, which
// *peak holds and Shrink updates.
func Shrink[M ~map[K]V, K comparable, V any](m M, peak *int) M {
	*peak = max(*peak, len(m))
	if *peak < minShrinkPeak || len(m) > *peak/shrinkFactor {
		return m
	}
	out := make(M, len(m))
	maps.Copy(out, m)
	*peak = len(m)
	return out
}
