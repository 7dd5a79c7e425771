package nft

import (
	"net/netip"
	"slices"
	"testing"
)

// lettered names an endpoint by one letter, and none by a dot.
func lettered(letter rune) netip.AddrPort {
	if letter == '.' {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(letter)}), 80)
}

func slotsOf(letters string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, l := range letters {
		out = append(out, lettered(l))
	}
	return out
}

func letters(slots []netip.AddrPort) string {
	var out []rune
	for _, e := range slots {
		if !e.IsValid() {
			out = append(out, '.')
			continue
		}
		out = append(out, rune(e.Addr().As4()[3]))
	}
	return string(out)
}

func TestAssignSlotsKeepsSlots(t *testing.T) {
	for name, tt := range map[string]struct{ old, endpoints, want string }{
		"the first endpoints are placed in order":             {"", "abc", "abc"},
		"the same endpoints stay":                             {"cab", "abc", "cab"},
		"a replaced endpoint leaves its slot to the new one":  {"cab", "bcd", "cdb"},
		"a new endpoint takes a slot behind the others":       {"cb", "abc", "cba"},
		"two new endpoints do so in order":                    {"d", "abd", "dab"},
		"the last endpoint goes and nothing moves":            {"cab", "ac", "ca"},
		"the first endpoint goes and the last one moves":      {"cab", "ab", "ba"},
		"all but the last endpoint go":                        {"abcd", "d", "d"},
		"two go, one comes, and the last one moves":           {"abcd", "cde", "edc"},
		"all endpoints go":                                    {"abc", "", ""},
		"all endpoints are others":                            {"abc", "xyz", "xyz"},
		"an endpoint in two slots keeps the first":            {"aab", "abc", "acb"},
		"an endpoint in two slots gets one":                   {"aaa", "a", "a"},
		"an endpoint in two slots frees one for another":      {"aab", "ab", "ab"},
		"of many that go, none of those that stay moves down": {"abcdef", "abc", "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			got := letters(assignSlots(slotsOf(tt.old), slotsOf(tt.endpoints)))
			if got != tt.want {
				t.Errorf("slots of %q after %q are %q, want %q", tt.endpoints, tt.old, got, tt.want)
			}
		})
	}
}

// FuzzSlots lets old slots be anything that a kernel may have been found to
// hold, repetitions included.
func FuzzSlots(f *testing.F) {
	f.Add([]byte("abc"), []byte("bcd"))
	f.Add([]byte("aabbc"), []byte("cbd"))
	f.Add([]byte(""), []byte("xyz"))
	f.Add([]byte("hgfedcba"), []byte("a"))
	f.Add([]byte("z"), []byte("abcdefgh"))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		if len(before)+len(after) > 1000 {
			return // the check compares each with each
		}
		place := func(letters []byte) []netip.AddrPort {
			out := make([]netip.AddrPort, len(letters))
			for i, l := range letters {
				out[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, l}), 80)
			}
			return out
		}
		endpoints := place(after)
		slices.SortFunc(endpoints, netip.AddrPort.Compare)
		checkSlots(t, place(before), slices.Compact(endpoints))
	})
}

// checkSlots asserts what assignSlots promises.
func checkSlots(t *testing.T, old, endpoints []netip.AddrPort) {
	t.Helper()
	oldBefore, endpointsBefore := slices.Clone(old), slices.Clone(endpoints)
	slots := assignSlots(old, endpoints)
	if !slices.Equal(old, oldBefore) || !slices.Equal(endpoints, endpointsBefore) {
		t.Fatal("the arguments were changed")
	}
	if placed := slices.SortedFunc(slices.Values(slots), netip.AddrPort.Compare); !slices.Equal(placed, endpoints) {
		t.Fatalf("slots %v hold not just the endpoints %v", slots, endpoints)
	}
	var came, went, changed int
	for k := range max(len(old), len(slots)) {
		had, has := k < len(old), k < len(slots)
		if had != has || had && old[k] != slots[k] {
			changed++
		}
		if has && !slices.Contains(old, slots[k]) {
			came++
		}
		// The second slot of an endpoint counts as free.
		if had && (!slices.Contains(slots, old[k]) || slices.Contains(old[:k], old[k])) {
			went++
			continue
		}
		if had && has && old[k] != slots[k] {
			t.Fatalf("endpoint %v had to leave slot %d of %v: %v", old[k], k, old, slots)
		}
	}
	if most := max(came, went) + max(0, went-came); changed > most {
		t.Fatalf("%d came, %d went, and %d slots changed, more than %d: %v -> %v", came, went, changed, most, old, slots)
	}
	back := slices.Compact(slices.SortedFunc(slices.Values(old), netip.AddrPort.Compare))
	if got, want := reassignSlots(slots, endpoints, back), assignSlots(slots, back); !slices.Equal(got, want) {
		t.Fatalf("looking only for what differs, %v becomes %v, want %v", slots, got, want)
	}
}
