package nft

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func prefixesOf(text string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range strings.Fields(text) {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func TestOutermostPrefixesCoverAllAddresses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var all []netip.Prefix
		for range r.IntN(8) {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(256))})
			all = append(all, netip.PrefixFrom(a, 24+r.IntN(9)))
		}
		kept := outermost(all)
		for i := range 256 {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
			in := func(p netip.Prefix) bool { return p.Contains(a) }
			n := len(slices.DeleteFunc(slices.Clone(kept), func(p netip.Prefix) bool { return !in(p) }))
			if n > 1 || (n == 1) != slices.ContainsFunc(all, in) {
				t.Fatalf("%v is in %d of %v, which replace %v", a, n, kept, all)
			}
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if again := outermost(all); !slices.Equal(again, kept) || !slices.IsSortedFunc(kept, comparePrefixes) {
			t.Fatalf("in another order %v, not %v", again, kept)
		}
	}
}
