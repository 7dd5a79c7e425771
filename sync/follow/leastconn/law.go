package leastconn

import (
	"math"
	"slices"

	"kube-vmap/model"
)

const (
	// maxGain is the maximum multiple of its fair share for an endpoint. It limits an
	// endpoint without connections in a burst that no observation foresaw.
	maxGain = 4
	// An endpoint may differ from the level of its pool by this part of it, and this many
	// connections, before shares become unequal; half of that makes them equal again.
	tolerance, toleratedConnections = 0.05, 2
	// minMove is the part of the slots that must move for a change to be worth a transaction.
	minMove = 0.05
)

// A load is what one endpoint of a list has and should have.
type load struct {
	active float64 // connections
	weight float64
}

// shares returns how many slots each endpoint should take, given the number of arrivals
// that the endpoints share until the next observation takes effect. It returns nil if the
// weights alone should decide, and current, which are the shares in effect, if a change
// is not worth a transaction.
func shares(loads []load, arrivals float64, current []uint16) []uint16 {
	if len(loads) < 2 || len(loads) > model.MaxSlots || isBalanced(loads, current != nil) {
		return nil
	}
	n := min(model.SharesPerEndpoint*len(loads), model.MaxSlots)
	next := apportion(fill(loads, max(arrivals, float64(len(loads)))), n)
	switch {
	case slices.Equal(next, apportion(weights(loads), n)):
		return nil
	case moved(current, next) <= minMove*float64(n):
		return current
	}
	return next
}

// isBalanced reports whether all endpoints are near their level. If they were not before,
// they must be nearer.
func isBalanced(loads []load, unequal bool) bool {
	level, factor := meanLevel(loads), 1.0
	if unequal {
		factor = 0.5
	}
	return !slices.ContainsFunc(loads, func(l load) bool {
		fair := level * l.weight
		return max(l.active-fair, fair-l.active) > factor*(tolerance*fair+toleratedConnections)
	})
}

// totals returns the connections and the weights of all endpoints.
func totals(loads []load) (active, weight float64) {
	for _, l := range loads {
		active, weight = active+l.active, weight+l.weight
	}
	return active, weight
}

// meanLevel returns the connections for each unit of weight.
func meanLevel(loads []load) float64 {
	active, weight := totals(loads)
	return active / weight
}

// fill distributes the arrivals to fill the endpoints up to one level, like water: an
// endpoint above the level gets nothing. No endpoint gets more than maxGain times its
// fair share.
func fill(loads []load, arrivals float64) []float64 {
	_, weight := totals(loads)
	out, fair := make([]float64, len(loads)), arrivals/weight
	low, high := 0.0, 0.0
	for _, l := range loads {
		high = max(high, l.active/l.weight+maxGain*fair)
	}
	for range 40 { // precise to a trillionth
		level, total := (low+high)/2, 0.0
		for i, l := range loads {
			out[i] = min(max(level*l.weight-l.active, 0), maxGain*fair*l.weight)
			total += out[i]
		}
		if total < arrivals {
			low = level
		} else {
			high = level
		}
	}
	return out
}

func weights(loads []load) []float64 {
	out := make([]float64, len(loads))
	for i, l := range loads {
		out[i] = l.weight
	}
	return out
}

// apportion divides slots in proportion to the parts, as [model.Apportion] does.
func apportion(parts []float64, slots int) []uint16 {
	scaled, largest := make([]uint16, len(parts)), slices.Max(parts)
	for i, p := range parts {
		scaled[i] = uint16(math.Round(p / largest * math.MaxUint16))
	}
	return model.Apportion(scaled, slots)
}

// moved returns how many slots change hands, infinitely many without earlier shares.
func moved(from, to []uint16) float64 {
	if len(from) != len(to) {
		return math.Inf(1)
	}
	n := 0
	for i := range to {
		n += max(int(to[i])-int(from[i]), 0)
	}
	return float64(n)
}
