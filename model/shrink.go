package model

// Maps keep the room they once had. What authors of Services filled must not stay
// when they delete it.
const (
	smallMap   = 4096 // below that, room does not matter
	fewOfThese = 8    // a map that holds less than this part of its peak is copied
)

// Shrink returns the map, or a copy if it holds a small part of what it held at its
// peak, which is brought up to date.
func Shrink[M ~map[K]V, K comparable, V any](m M, peak *int) M {
	*peak = max(*peak, len(m))
	if *peak < smallMap || len(m) > *peak/fewOfThese {
		return m
	}
	out := make(M, len(m))
	for k, v := range m {
		out[k] = v
	}
	*peak = len(m)
	return out
}
