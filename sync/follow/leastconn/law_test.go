package leastconn

import (
	"math"
	"slices"
	"testing"

	"kube-vmap/model"
)

// active returns loads of endpoints of the same weight.
func active(connections ...float64) (out []load) {
	for _, n := range connections {
		out = append(out, load{n, 1})
	}
	return out
}

func TestSharesFillTheLowestEndpointsFirst(t *testing.T) {
	for _, tt := range []struct {
		name     string
		loads    []load
		arrivals float64
		current  []uint16
		want     []uint16
	}{
		{"one endpoint", active(7), 100, nil, nil},
		{"no connections", active(0, 0, 0), 100, nil, nil},
		{"few connections", active(3, 1, 0), 0, nil, nil},
		{"within the tolerance", active(100, 107, 93), 0, nil, nil},
		{"arrivals fill one endpoint", active(60, 60, 0, 60), 20, nil, []uint16{0, 0, 16, 0}},
		{"arrivals fill two to the same level", active(60, 40, 20, 60), 40, nil, []uint16{0, 4, 12, 0}},
		{"arrivals fill all", active(30, 30, 0), 90, nil, []uint16{3, 3, 6}},
		{"many arrivals", active(30, 30, 0), 1e6, nil, nil},
		{"at most four times the fair share", active(50, 50, 50, 50, 50, 50, 0, 50), 8, nil, []uint16{3, 3, 2, 2, 2, 2, 16, 2}},
		{"weights", []load{{60, 2}, {30, 1}, {0, 1}}, 12, nil, []uint16{0, 0, 12}},
		{"near the level of weights", []load{{200, 20}, {10, 1}}, 0, nil, nil},
		{"a move that is too small", active(100, 100, 110, 80), 400, []uint16{4, 4, 3, 5}, []uint16{4, 4, 3, 5}},
		{"equal again", active(100, 100, 103, 97), 0, []uint16{3, 3, 3, 7}, nil},
		{"not near enough to be equal again", active(100, 100, 104, 90), 0, []uint16{3, 3, 0, 10}, []uint16{0, 0, 0, 16}},
	} {
		if got := shares(tt.loads, tt.arrivals, tt.current); !slices.Equal(got, tt.want) {
			t.Errorf("%s: shares %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSharesNeverTakeMoreThanTheSlots(t *testing.T) {
	for n := 2; n <= model.MaxSlots+1; n++ {
		loads := make([]load, n)
		for i := range loads {
			loads[i] = load{float64(1000 * (i % 3)), float64(1 + i%5)}
		}
		got, total := shares(loads, 100, nil), 0
		for _, x := range got {
			total += int(x)
		}
		switch {
		case n > model.MaxSlots && got != nil:
			t.Errorf("%d endpoints: %v, want none, they have no slots", n, got)
		case n <= model.MaxSlots && total != min(model.SharesPerEndpoint*n, model.MaxSlots):
			t.Errorf("%d endpoints: %d slots", n, total)
		}
	}
}

func TestFillBringsEndpointsToOneLevel(t *testing.T) {
	for _, arrivals := range []float64{1, 10, 100, 1000, 1e6} {
		loads := active(0, 5, 90, 95, 100, 100, 100, 250)
		got, most := fill(loads, arrivals), maxGain*arrivals/8
		low, high, total := 0.0, math.Inf(1), 0.0 // the bounds of the level
		for i, x := range got {
			after := loads[i].active + x
			total += x
			if x > 0 {
				low = max(low, after)
			}
			if x < most*0.999 {
				high = min(high, after)
			}
		}
		if math.Abs(total-arrivals) > 1e-6*arrivals || low > high+1e-6*arrivals {
			t.Errorf("%g arrivals: distributed %g as %v, with levels from %g to %g", arrivals, total, got, high, low)
		}
	}
}
