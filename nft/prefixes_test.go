package nft

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
)

func prefixesOf(text string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range strings.Fields(text) {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func TestOnlyOutermostPrefixesAreKept(t *testing.T) {
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

func TestOutermostPrefixesCoverWhatAllDo(t *testing.T) {
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
				t.Fatalf("%v is in %d of %v, which stand for %v", a, n, kept, all)
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

func TestTheLastAddressOfAPrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.96.0.0/16":       "10.96.255.255",
		"10.96.0.0/12":       "10.111.255.255",
		"192.0.2.7/32":       "192.0.2.7",
		"192.0.2.6/31":       "192.0.2.7",
		"0.0.0.0/0":          "255.255.255.255",
		"255.255.255.255/32": "255.255.255.255",
		"fd00:10:96::/112":   "fd00:10:96::ffff",
		"::/0":               "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"2001:db8::/65":      "2001:db8::7fff:ffff:ffff:ffff",
	} {
		if got := lastAddr(netip.MustParsePrefix(prefix)); got != netip.MustParseAddr(want) {
			t.Errorf("the last address of %s is %v, want %s", prefix, got, want)
		}
	}
}

func TestRangesAreReadAsPrefixes(t *testing.T) {
	id := SetID{Family: model.IPv4, Kind: SetServiceCIDRs}
	mark := func(text string) Element { // "10.0.0.0" begins an interval, "-10.0.0.0" ends one
		addr, ends := strings.CutPrefix(text, "-")
		el := Element{Key: Key{Addr: netip.MustParseAddr(addr), Bits: startMark}}
		if ends {
			el.Key.Bits = endMark
		}
		return el
	}
	for name, tt := range map[string]struct{ marks, want string }{
		"a prefix":                      {"10.96.0.0 -10.97.0.0", "10.96.0.0/16"},
		"in any order":                  {"-10.97.0.0 10.96.0.0", "10.96.0.0/16"},
		"an address":                    {"10.96.0.0 -10.96.0.1", "10.96.0.0/32"},
		"neighbours":                    {"10.96.0.0 -10.97.0.0 10.97.0.0 -10.98.0.0", "10.96.0.0/16 10.97.0.0/16"},
		"to the last address":           {"255.255.255.0", "255.255.255.0/24"},
		"the last address":              {"255.255.255.255", "255.255.255.255/32"},
		"everything":                    {"0.0.0.0", "0.0.0.0/0"},
		"a range that is none":          {"10.0.0.1 -10.0.0.6", "none"},
		"a range that is none and one":  {"10.0.0.1 -10.0.0.6 10.96.0.0 -10.97.0.0", "none 10.96.0.0/16"},
		"an end with no beginning":      {"-10.0.0.6", ""},
		"a beginning without its end":   {"10.0.0.0 10.96.0.0 -10.97.0.0", "none 10.96.0.0/16"},
		"a beginning twice, of a clash": {"10.96.0.0 10.96.0.0 -10.97.0.0", "none 10.96.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			var list []Element
			for _, m := range strings.Fields(tt.marks) {
				list = append(list, mark(m))
			}
			var got []string
			for _, el := range SortElements(id, list) {
				if hasNoKey(el) {
					got = append(got, "none")
					continue
				}
				got = append(got, el.Key.prefix().String())
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s is read as %v, want %s", tt.marks, got, tt.want)
			}
		})
	}
}
