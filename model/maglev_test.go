package model

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// The sizes of tables: that of the proxy, one four times as large, and that of the
// paper.
const (
	smallTable  = 251
	mediumTable = 1021
	paperTable  = 65537
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
		for _, size := range []int{2, 3, 13, smallTable, mediumTable} {
			for _, n := range []int{1, 2, 3, 7, 10, 13, 100, smallTable} {
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
	for _, e := range MaglevTable(nil, nil, smallTable) {
		if e.IsValid() {
			t.Fatalf("got %s", e)
		}
	}
}

func TestMaglevTableWithTooManyEndpoints(t *testing.T) {
	for _, f := range Families {
		endpoints := endpointsOf(f, smallTable+9, nil)
		got := shares(MaglevTable(endpoints, nil, smallTable))
		for i, e := range endpoints {
			if want := min(1, max(0, smallTable-i)); got[e] != want {
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
		if newPermutation(a, paperTable) == newPermutation(b, paperTable) {
			t.Errorf("%s: %s and %s have the same permutation", f, a, b)
		}
		if newPermutation(a, paperTable).step == newPermutation(podPorts(f, 2)[0], paperTable).step {
			t.Errorf("%s: pods 1 and 2 have the same step", f)
		}
	}
}

// disruption sums up changes of tables of one size.
type disruption struct {
	total, worst float64
	changes      int
}

func (d disruption) mean() float64 { return d.total / float64(d.changes) }

// add counts the change between the tables with and without one endpoint: the share of
// all entries whose endpoint changed although it is in both tables. Entries of that one
// endpoint have to change.
func (d *disruption) add(with, without []netip.AddrPort, one netip.AddrPort) {
	moved := 0
	for k := range with {
		if with[k] != one && with[k] != without[k] {
			moved++
		}
	}
	share := float64(moved) / float64(len(with))
	d.total, d.worst, d.changes = d.total+share, max(d.worst, share), d.changes+1
}

// measureDisruption removes up to 10 of n endpoints, one at a time, from several sets
// of both families, with random addresses and with consecutive ones.
func measureDisruption(n, size, fleets int) disruption {
	var d disruption
	random := rand.New(rand.NewPCG(uint64(n), uint64(size)))
	for i := range fleets {
		order := random
		if i%4 == 0 {
			order = nil
		}
		endpoints := endpointsOf(Families[i%2], n, order)
		with := MaglevTable(endpoints, nil, size)
		for _, k := range random.Perm(n)[:min(n, 10)] {
			d.add(with, MaglevTable(slices.Delete(slices.Clone(endpoints), k, k+1), nil, size), endpoints[k])
		}
	}
	return d
}

// The paper measures tables of 65537 entries; its bound of one percent for the
// difference in shares needs a hundred entries for each endpoint. Here two endpoints in
// 250 have the same step, and some of these follow each other, hence the worst cases.
// The bounds are the results for ten times as many sets, and a quarter more.
func TestMaglevDisruptionIsSmall(t *testing.T) {
	tests := []struct {
		size, n, fleets int
		mean, worst     float64 // bounds, in percent of all entries
	}{
		{smallTable, 2, 200, 0, 0}, // the remaining one has all
		{smallTable, 3, 200, 1.4, 51},
		{smallTable, 5, 200, 4, 40},
		{smallTable, 10, 200, 6.6, 27},
		{smallTable, 20, 200, 10, 23},
		{smallTable, 30, 100, 9.6, 17},
		{smallTable, 50, 100, 7.2, 14},
		{smallTable, 100, 60, 4.6, 11},
		{mediumTable, 3, 60, 0.7, 9},
		{mediumTable, 10, 60, 3.1, 14},
		{mediumTable, 50, 40, 6.5, 10},
		{mediumTable, 100, 40, 4.3, 8},
		{paperTable, 3, 2, 0.04, 0.12},
		{paperTable, 10, 2, 0.3, 0.7},
		{paperTable, 100, 1, 0.7, 0.9},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%d entries, %d endpoints", test.size, test.n), func(t *testing.T) {
			t.Parallel()
			d := measureDisruption(test.n, test.size, test.fleets)
			t.Logf("%5d entries, %3d endpoints: necessary moves %5.2f%%, unnecessary %5.2f%%, at most %5.2f%% in %d changes; largest share/mean %.3f",
				test.size, test.n, 100/float64(test.n), 100*d.mean(), 100*d.worst, d.changes, imbalance(test.n, test.size))
			if 100*d.mean() > test.mean || 100*d.worst > test.worst {
				t.Errorf("want at most %.2f%% and %.2f%%", test.mean, test.worst)
			}
			if most := float64((test.size + test.n - 1) / test.n); imbalance(test.n, test.size) != most*float64(test.n)/float64(test.size) {
				t.Errorf("the largest share is not %v entries", most)
			}
		})
	}
}

// imbalance returns the ratio of the largest share to the mean.
func imbalance(n, size int) float64 {
	most := 0
	for _, k := range shares(MaglevTable(endpointsOf(IPv4, n, nil), nil, size)) {
		most = max(most, k)
	}
	return float64(most) * float64(n) / float64(size)
}
