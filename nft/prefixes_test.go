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

func TestOutermostPrefixes(t *testing.T) {
	for name, tt := range map[string]struct{ prefixes, want string }{
		"none":                       {"", ""},
		"sorted":                     {"192.0.2.0/24 10.96.0.0/16", "10.96.0.0/16 192.0.2.0/24"},
		"one within another":         {"10.96.4.0/24 10.96.0.0/16", "10.96.0.0/16"},
		"one that begins another":    {"10.96.0.0/24 10.96.0.0/16", "10.96.0.0/16"},
		"one that ends another":      {"10.96.255.0/24 10.96.0.0/16", "10.96.0.0/16"},
		"twice the same":             {"10.96.0.0/16 10.96.0.0/16", "10.96.0.0/16"},
		"the same, not masked":       {"10.96.0.1/16 10.96.7.7/16", "10.96.0.0/16"},
		"neighbours":                 {"10.97.0.0/16 10.96.0.0/16", "10.96.0.0/16 10.97.0.0/16"},
		"all within everything":      {"10.96.0.0/16 0.0.0.0/0 255.255.255.255/32", "0.0.0.0/0"},
		"IPv6":                       {"fd00::1/128 fd00::/64 ::/128", "::/128 fd00::/64"},
		"two deep":                   {"10.0.0.0/8 10.96.0.0/16 10.96.4.0/24 11.0.0.0/8", "10.0.0.0/8 11.0.0.0/8"},
		"inner ones of several ones": {"10.0.0.1/32 10.0.0.0/24 10.0.1.1/32 10.0.1.0/24", "10.0.0.0/24 10.0.1.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			given := prefixesOf(tt.prefixes)
			if got := outermost(given); !slices.Equal(got, prefixesOf(tt.want)) {
				t.Errorf("outermost of %s is %v, want %s", tt.prefixes, got, tt.want)
			}
			if !slices.Equal(given, prefixesOf(tt.prefixes)) {
				t.Error("the argument was changed")
			}
		})
	}
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
			n := len(slices.Collect(filter(kept, in)))
			if n > 1 || (n == 1) != slices.ContainsFunc(all, in) {
				t.Fatalf("%v is in %d of %v, which replace %v", a, n, kept, all)
			}
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if again := outermost(all); !slices.Equal(again, kept) {
			t.Fatalf("in another order %v, not %v", again, kept)
		}
	}
}

func filter[T any](list []T, keep func(T) bool) func(func(T) bool) {
	return func(yield func(T) bool) {
		for _, item := range list {
			if keep(item) && !yield(item) {
				return
			}
		}
	}
}
