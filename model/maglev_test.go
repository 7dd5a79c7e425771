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
			for _, n := range []int{1, 2, 3, 7, 10, 13, 100, MaglevTableSize} {
				if n > size {
					continue
				}
				endpoints := endpointsOf(f, n, nil)
				table := MaglevTable(endpoints, nil, size)
				if len(table) != size {
					t.Fatalf("%s: %d entries instead of %d", f, len(table), size)
				}
				got := shares(table)
				for _, e := range endpoints {
					if k := got[e]; k != size/n && k != (size+n-1)/n {
						t.Errorf("%s: %s has %d of %d entries, with %d endpoints", f, e, k, size, n)
					}
				}
				if len(got) != n {
					t.Errorf("%s: %d of %d endpoints have entries", f, len(got), n)
				}
			}
		}
	}
}

func TestMaglevTableWithoutEndpointsIsInvalid(t *testing.T) {
	for _, e := range MaglevTable(nil, nil, MaglevTableSize) {
		if e.IsValid() {
			t.Fatalf("got %s", e)
		}
	}
}

func TestMaglevTableWithTooManyEndpoints(t *testing.T) {
	for _, f := range Families {
		endpoints := endpointsOf(f, MaglevTableSize+9, nil)
		got := shares(MaglevTable(endpoints, nil, MaglevTableSize))
		for i, e := range endpoints {
			if want := min(1, max(0, MaglevTableSize-i)); got[e] != want {
				t.Errorf("%s: endpoint %d has %d entries, want %d", f, i, got[e], want)
			}
		}
	}
}

// Any change here would move flows while nodes of two versions run side by side.
func TestMaglevTableIsTheSameInEveryVersion(t *testing.T) {
	tests := []struct {
		family Family
		want   []int // pods
	}{
		{IPv4, []int{0, 0, 1, 1, 1, 2, 2, 0, 2, 0, 1, 0, 2}},
		{IPv6, []int{0, 0, 1, 2, 1, 1, 0, 0, 1, 2, 2, 2, 0}},
	}
	for _, test := range tests {
		var got []int
		endpoints := endpointsOf(test.family, 3, nil)
		for _, e := range MaglevTable(endpoints, nil, 13) {
			got = append(got, slices.Index(endpoints, e))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.family, got, test.want)
		}
	}
}

func TestMaglevTableDistinguishesPorts(t *testing.T) {
	for _, f := range Families {
		a, b := netip.AddrPortFrom(podIP(f, 1), 8080), netip.AddrPortFrom(podIP(f, 1), 8081)
		if newPermutation(a, MaglevTableSize) == newPermutation(b, MaglevTableSize) {
			t.Errorf("%s: %s and %s have the same permutation", f, a, b)
		}
		if newPermutation(a, MaglevTableSize).step == newPermutation(podPorts(f, 2)[0], MaglevTableSize).step {
			t.Errorf("%s: pods 1 and 2 have the same step", f)
		}
	}
}

// disruption sums up changes of tables of one size.
type disruption struct {
	total, worst float64
	changes      int
}

// check wants the mean and the worst change to be within bounds, in percent of all entries.
func (d disruption) check(t *testing.T, mean, worst float64) {
	t.Helper()
	if got := 100 * d.total / float64(d.changes); got > mean || 100*d.worst > worst {
		t.Errorf("unnecessary moves %.2f%%, at most %.2f%%; want at most %.2f%% and %.2f%%", got, 100*d.worst, mean, worst)
	}
}

// add counts the change between two tables, of which the second lacks one endpoint or has it
// with another weight: the entries that go from one of the other endpoints to another.
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

// measureDisruption removes up to 10 of n endpoints, one at a time, from several sets
// of both families, with random addresses and with consecutive ones.
func measureDisruption(n, fleets int) disruption {
	var d disruption
	random := rand.New(rand.NewPCG(uint64(n), MaglevTableSize))
	for i := range fleets {
		order := random
		if i%4 == 0 {
			order = nil
		}
		endpoints := endpointsOf(Families[i%2], n, order)
		with := MaglevTable(endpoints, nil, MaglevTableSize)
		for _, k := range random.Perm(n)[:min(n, 10)] {
			d.add(with, MaglevTable(slices.Delete(slices.Clone(endpoints), k, k+1), nil, MaglevTableSize), endpoints[k])
		}
	}
	return d
}

// Two endpoints in 250 have the same step, and some of these follow each other, hence the
// worst cases. The bounds are the results for ten times as many sets, and a quarter more.
func TestMaglevDisruptionIsSmall(t *testing.T) {
	tests := []struct {
		n, fleets   int
		mean, worst float64 // bounds, in percent of all entries
	}{
		{2, 200, 0, 0}, // the remaining one has all
		{3, 200, 1.4, 51},
		{5, 200, 4, 40},
		{10, 200, 6.6, 27},
		{20, 200, 10, 23},
		{30, 100, 9.6, 17},
		{50, 100, 7.2, 14},
		{100, 60, 4.6, 11},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%d endpoints", test.n), func(t *testing.T) {
			t.Parallel()
			d := measureDisruption(test.n, test.fleets)
			d.check(t, test.mean, test.worst)
		})
	}
}
