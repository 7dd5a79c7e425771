package model

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// endpointsOf returns n sorted endpoints: the first addresses of a range of pods, or
// random ones.
func endpointsOf(f Family, n int, random *rand.Rand) []netip.AddrPort {
	var out []netip.AddrPort
	for k := range n {
		if random != nil {
			k = k<<8 | random.IntN(256)
		}
		out = append(out, netip.AddrPortFrom(podIP(f, k), podPort))
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return out
}

// shares returns how many entries each endpoint has.
func shares(table []netip.AddrPort) map[netip.AddrPort]int {
	out := map[netip.AddrPort]int{}
	for _, e := range table {
		out[e]++
	}
	return out
}

func TestMaglevTableIsFullAndFair(t *testing.T) {
	for _, f := range Families {
		for _, size := range []int{2, 3, 13, MaglevTableSize, 1021} {
			for _, n := range []int{0, 1, 2, 3, 7, 10, 13, 100, MaglevTableSize, MaglevTableSize + 9} {
				endpoints := endpointsOf(f, n, nil)
				got, entries := shares(MaglevTable(endpoints, nil, size)), 0
				for i, e := range endpoints {
					least, most := size/n, (size+n-1)/n
					if n > size {
						least, most = 0, 0
					}
					if n > size && i < size {
						least, most = 1, 1
					}
					if k := got[e]; k < least || k > most {
						t.Errorf("%s: %s has %d of %d entries, with %d endpoints", f, e, k, size, n)
					}
					entries += got[e]
				}
				if free := got[netip.AddrPort{}]; entries+free != size || (free > 0) != (n == 0) {
					t.Errorf("%s: %d of %d entries are used, %d free, with %d endpoints", f, entries, size, free, n)
				}
			}
		}
	}
}

// Any change here would move flows while nodes of two versions run side by side.
func TestMaglevTableIsTheSameInEveryVersion(t *testing.T) {
	for _, test := range []struct {
		family  Family
		weights []uint16
		want    []int // endpoints: two ports of one pod, and another pod
	}{
		{IPv4, nil, []int{2, 0, 1, 0, 2, 2, 2, 0, 0, 1, 1, 1, 0}},
		{IPv6, nil, []int{0, 1, 1, 1, 0, 2, 0, 0, 2, 1, 2, 0, 2}},
		{IPv4, []uint16{5, 5, 5}, []int{2, 0, 1, 0, 2, 2, 2, 0, 0, 1, 1, 1, 0}},
		{IPv6, []uint16{1, 4, 2}, []int{0, 1, 1, 1, 1, 2, 2, 0, 2, 1, 1, 1, 2}},
	} {
		var got []int
		endpoints := endpointsOf(test.family, 2, nil)
		endpoints = slices.Insert(endpoints, 1, netip.AddrPortFrom(endpoints[0].Addr(), podPort+1))
		for _, e := range MaglevTable(endpoints, test.weights, 13) {
			got = append(got, slices.Index(endpoints, e))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s, weights %v: got %v, want %v", test.family, test.weights, got, test.want)
		}
	}
}

// disruption sums up changes of tables of one size.
type disruption struct {
	total, worst float64
	changes      int
}

// add counts the change between two tables; the second lacks one endpoint or has it with
// another weight. It counts the entries that go from one of the other endpoints to another.
func (d *disruption) add(before, after []netip.AddrPort, one netip.AddrPort) {
	moved := 0
	for k := range before {
		if before[k] != after[k] && before[k] != one && after[k] != one {
			moved++
		}
	}
	share := float64(moved) / float64(len(before))
	d.total, d.worst, d.changes = d.total+share, max(d.worst, share), d.changes+1
}

// measureDisruption changes several sets of n endpoints of both families, with random addresses
// and with consecutive ones: it removes up to 10 endpoints, one at a time, or changes one weight.
func measureDisruption(n, fleets int, weighted bool) (d disruption) {
	random := rand.New(rand.NewPCG(uint64(n), MaglevTableSize))
	for i := range fleets {
		order := random
		if i%4 == 0 {
			order = nil
		}
		endpoints := endpointsOf(Families[i%2], n, order)
		if !weighted {
			with := MaglevTable(endpoints, nil, MaglevTableSize)
			for _, k := range random.Perm(n)[:min(n, 10)] {
				d.add(with, MaglevTable(slices.Delete(slices.Clone(endpoints), k, k+1), nil, MaglevTableSize), endpoints[k])
			}
			continue
		}
		weights := make([]uint16, n)
		for k := range weights {
			weights[k] = uint16(1 + random.IntN(10))
		}
		before, one := MaglevTable(endpoints, weights, MaglevTableSize), random.IntN(n)
		weights[one] = uint16(1 + random.IntN(20))
		d.add(before, MaglevTable(endpoints, weights, MaglevTableSize), endpoints[one])
	}
	return d
}

// Two endpoints in 250 have the same step, and some of these follow each other, hence the
// worst cases. The bounds are the results, for removals the results of ten times as many sets,
// and a quarter more.
func TestMaglevDisruptionIsSmall(t *testing.T) {
	type bounds struct{ mean, worst float64 } // in percent of all entries
	for _, test := range []struct {
		n, fleets       int
		removed, weight bounds
	}{
		{2, 200, bounds{0, 0}, bounds{0, 0}}, // the remaining one has all
		{3, 200, bounds{1.4, 51}, bounds{0.7, 2.5}},
		{5, 200, bounds{4, 40}, bounds{2.6, 23}},
		{10, 200, bounds{6.6, 27}, bounds{5.4, 15}},
		{20, 200, bounds{10, 23}, bounds{8.1, 15}},
		{50, 100, bounds{7.2, 14}, bounds{7.1, 16}},
		{100, 60, bounds{4.6, 11}, bounds{4.2, 11}},
	} {
		t.Run(fmt.Sprintf("%d endpoints", test.n), func(t *testing.T) {
			t.Parallel()
			for i, want := range []bounds{test.removed, test.weight} {
				d := measureDisruption(test.n, test.fleets, i > 0)
				if mean := 100 * d.total / float64(d.changes); mean > want.mean || 100*d.worst > want.worst {
					t.Errorf("weights: %t: unnecessary moves %.2f%%, at most %.2f%%; want at most %v", i > 0, mean, 100*d.worst, want)
				}
			}
		})
	}
}
