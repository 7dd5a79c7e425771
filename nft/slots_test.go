package nft

import (
	"net/netip"
	"slices"
	"testing"
)

// lettered names an endpoint by one letter, and a missing one by a dot.
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

// FuzzSlots lets old slots be anything that a kernel may be found to hold, and gives
// endpoints several shares.
func FuzzSlots(f *testing.F) {
	f.Add([]byte("abc"), []byte("bcd"))
	f.Add([]byte("aabbc"), []byte("cbd"))
	f.Add([]byte(""), []byte("xyz"))
	f.Add([]byte("hgfedcba"), []byte("a"))
	f.Add([]byte("z"), []byte("abcdefgh"))
	f.Add([]byte("abacab"), []byte("aabbbbd"))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		if len(before)+len(after) > 1000 {
			return // the check compares each with each
		}
		for _, text := range [...][]byte{before, after} {
			for i := range text {
				text[i] = 'a' + text[i]%26
			}
		}
		old, shares := slotsOf(string(before)), spreadOfLetters(string(after))
		checkSlots(t, old, shares)
		checkSlots(t, old, spread{endpoints: shares.endpoints})
	})
}

// checkSlots asserts the promises of assignSlots.
func checkSlots(t *testing.T, old []netip.AddrPort, after spread) {
	t.Helper()
	oldBefore, afterBefore := slices.Clone(old), after.copy()
	slots := assignSlots(old, after)
	if !slices.Equal(old, oldBefore) || !slices.Equal(after.copy().shares, afterBefore.shares) {
		t.Fatal("the arguments were changed")
	}
	if got, want := letters(sortedSlots(slots)), letters(sortedSlots(after.interleaved())); got != want {
		t.Fatalf("slots have the endpoints %s, want %s", got, want)
	}
	left, went, changed := after.copy(), 0, 0
	for k := range max(len(old), len(slots)) {
		had, has := k < len(old), k < len(slots)
		if had != has || had && old[k] != slots[k] {
			changed++
		}
		switch stays := had && left.take(old[k]); {
		case had && !stays:
			went++
		case stays && has && old[k] != slots[k]:
			t.Fatalf("endpoint %v had to leave slot %d of %v: %v", old[k], k, old, slots)
		}
	}
	if most := max(left.slots(), went) + max(0, went-left.slots()); changed > most {
		t.Fatalf("%d came, %d went, and %d slots changed, more than %d: %v -> %v", left.slots(), went, changed, most, old, slots)
	}
	back := spreadOfLetters(letters(old))
	if got, want := reassignSlots(slots, after, back), assignSlots(slots, back); !slices.Equal(got, want) {
		t.Fatalf("looking only for what differs, %v becomes %v, want %v", slots, got, want)
	}
}

// sortedSlots returns a sorted copy.
func sortedSlots(slots []netip.AddrPort) []netip.AddrPort {
	return slices.SortedFunc(slices.Values(slots), netip.AddrPort.Compare)
}

// spreadOfLetters makes a spread of letters, each as often as it has shares.
func spreadOfLetters(letters string) spread {
	var s spread
	for _, l := range slices.Sorted(slices.Values([]rune(letters))) {
		e := lettered(l)
		if last := len(s.endpoints) - 1; last >= 0 && s.endpoints[last] == e {
			s.shares[last]++
			continue
		}
		s.endpoints, s.shares = append(s.endpoints, e), append(s.shares, 1)
	}
	return s
}

func TestEndpointWithoutShareHasNoSlot(t *testing.T) {
	none := spread{slotsOf("abc"), []uint16{0, 2, 1}}
	if got := letters(assignSlots(nil, none)); got != "bcb" {
		t.Errorf("the first slots are %q", got)
	}
	if got := letters(assignSlots(slotsOf("abc"), none)); got != "bbc" {
		t.Errorf("slots after abc are %q", got)
	}
	if got := letters(reassignSlots(slotsOf("bbc"), none, spread{slotsOf("abc"), []uint16{1, 1, 1}})); got != "bac" {
		t.Errorf("slots with one each again are %q", got)
	}
}

func TestAssignSlotsByShares(t *testing.T) {
	for name, tt := range map[string]struct{ old, endpoints, want string }{
		"the first ones are interleaved":                {"", "aaaabbc", "abacaba"},
		"equal shares take turns":                       {"", "aabb", "abab"},
		"the same shares stay":                          {"aabac", "aaabc", "aabac"},
		"one more share takes a slot behind the others": {"aba", "aaab", "abaa"},
		"one share less moves the last one":             {"abaa", "aab", "aba"},
		"a share moves from one to another":             {"abab", "aaab", "abaa"},
		"an endpoint with three shares is replaced":     {"abaca", "bcddd", "dbdcd"},
		"shares follow one each":                        {"cab", "aabbc", "cabab"},
		"one each follows shares":                       {"aabac", "abc", "acb"},
		"one that goes leaves its slots to the last":    {"abab", "bb", "bb"},
	} {
		t.Run(name, func(t *testing.T) {
			after := spreadOfLetters(tt.endpoints)
			if got := letters(assignSlots(slotsOf(tt.old), after)); got != tt.want {
				t.Errorf("slots of %q after %q are %q, want %q", tt.endpoints, tt.old, got, tt.want)
			}
			if tt.old == "" {
				return
			}
			got := letters(reassignSlots(slotsOf(tt.old), spreadOfLetters(tt.old), after))
			if got != tt.want {
				t.Errorf("looking only for what differs, slots of %q after %q are %q, want %q", tt.endpoints, tt.old, got, tt.want)
			}
		})
	}
}
