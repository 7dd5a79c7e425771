package forward

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
)

// TestSlotsThatMove compares the tables of random endpoints before and after one of them is
// removed or replaced, and endpoints in order with a hash modulo their number.
func TestSlotsThatMove(t *testing.T) {
	const rounds = 200
	random := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []struct {
		endpoints int
		// others is the greatest share of slots of other endpoints that moves with a
		// removal, in percent, modulo the same of a hash modulo the number of endpoints,
		// and replaced the greatest number of slots that a replacement changes.
		others, modulo, replaced float64
	}{
		{3, 2, 51, 135},
		{10, 7, 90, 62},
		{30, 9, 97, 38},
		{100, 4, 99, 18},
	} {
		var others, modulo, replaced float64
		for range rounds {
			all := endpoints(random, tc.endpoints+1)
			before, fewer, other := maglev(all[1:]), maglev(all[2:]), maglev(append(all[:1:1], all[2:]...))
			removed := all[1]
			others += moved(before, fewer, removed)
			replaced += 251 * moved(before, other, netip.AddrPort{})
			modulo += moved(slices.Repeat(all[1:], tc.endpoints-1), slices.Repeat(all[2:], tc.endpoints), removed)
		}
		others, modulo, replaced = 100*others/rounds, 100*modulo/rounds, replaced/rounds
		t.Logf("%d endpoints: %.1f %% of the others move, modulo %.0f %%; %.0f slots change with a replacement",
			tc.endpoints, others, modulo, replaced)
		if others > tc.others || modulo > tc.modulo || replaced > tc.replaced {
			t.Errorf("%d endpoints: more than %v", tc.endpoints, tc)
		}
	}
	if model.MaglevTableSize != 251 {
		t.Error("docs/design.md has figures for 251 slots")
	}
}

func endpoints(random *rand.Rand, n int) []netip.AddrPort {
	all := make([]netip.AddrPort, n)
	for i := range all {
		addr := [4]byte{10, 244, byte(random.IntN(256)), byte(random.IntN(256))}
		all[i] = netip.AddrPortFrom(netip.AddrFrom4(addr), 8080)
	}
	return all
}

// moved returns the share of slots that differ, without those of an endpoint.
func moved(before, after []netip.AddrPort, without netip.AddrPort) float64 {
	differ, all := 0, 0
	for k, e := range before {
		if e == without {
			continue
		}
		all++
		if e != after[k] {
			differ++
		}
	}
	return float64(differ) / float64(all)
}
