package nft

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"kube-vmap/model"
	"kube-vmap/nft/nfttest"
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

// weightedFrontend is a ClusterIP whose pool has these shares in both lists.
func weightedFrontend(f model.Family, p model.Protocol, s model.Scheduler, affinity time.Duration, shares ...uint16) model.Frontend {
	key := model.Match{Family: f, Addr: nfttest.Addr(f, 96, 1), Protocol: p, Port: 80}
	pool := &model.Pool{Key: key, Scheduler: s, Affinity: affinity, ClusterWeights: shares, LocalWeights: shares}
	for i := range shares {
		pool.Cluster = append(pool.Cluster, netip.AddrPortFrom(nfttest.Addr(f, 244, i), 8080))
	}
	pool.Local = pool.Cluster
	if s != model.SchedulerMaglev || affinity > 0 {
		pool.ClusterShares, pool.LocalShares = shares, shares
	}
	return model.Frontend{Match: key, Pool: pool, Service: model.ServicePortName{ServiceName: model.ServiceName{Namespace: "shop", Name: "web"}, Protocol: p}}
}

// eachWeighted runs a test for every family, protocol, scheduler, and with affinity.
func eachWeighted(t *testing.T, test func(t *testing.T, frontend func(shares ...uint16) model.Frontend)) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for s := model.SchedulerRandom; s <= model.SchedulerMaglev; s++ {
				for _, affinity := range []time.Duration{0, time.Hour} {
					t.Run(fmt.Sprint(f, p, s, affinity), func(t *testing.T) {
						test(t, func(shares ...uint16) model.Frontend { return weightedFrontend(f, p, s, affinity, shares...) })
					})
				}
			}
		}
	}
}

// TestRestartKeepsWeightedSlots changes shares, to bring slots out of order, and starts again
// from what the kernel has then. Shares are read back from there.
func TestRestartKeepsWeightedSlots(t *testing.T) {
	eachWeighted(t, func(t *testing.T, frontend func(shares ...uint16) model.Frontend) {
		rules, _ := Adopt(sampleConfig, Tables{}, Change{Set: []model.Frontend{frontend(1, 2, 3)}})
		for _, shares := range [][]uint16{{3, 2, 1}, {1, 1, 1, 5}, {200, 100, 1}, {1, 1, 1}} {
			rules.Commit(rules.Plan(Change{Set: []model.Frontend{frontend(shares...)}}))
			want, got := frontend(shares...).Pool, rules.Tables().Installed()[0].Pool
			if slices.Max(shares) == 1 {
				want.ClusterShares, want.LocalShares = nil, nil
			}
			if !slices.Equal(got.ClusterShares, want.ClusterShares) || !slices.Equal(got.LocalShares, want.LocalShares) {
				t.Errorf("shares %v are read as %v and %v of %v", shares, got.ClusterShares, got.LocalShares, got.Cluster)
			}
			again, batch := Adopt(sampleConfig, rules.Tables(), Change{Set: []model.Frontend{frontend(shares...)}})
			if len(batch) > 0 {
				t.Errorf("shares %v: a restart writes\n%s", shares, batch)
			}
			if diff := gocmp.Diff(readables(rules.Installed()), readables(again.Installed())); diff != "" {
				t.Errorf("shares %v: -before +after the restart\n%s", shares, diff)
			}
		}
	})
}

func TestChainPicksOneOfAllSlots(t *testing.T) {
	for _, f := range model.Families {
		for slots, shares := range map[uint32][]uint16{6: {3, 2, 1}, 301: {200, 100, 1}} {
			set := []model.Frontend{weightedFrontend(f, model.UDP, model.SchedulerRandom, 0, shares...)}
			rules, _ := Adopt(sampleConfig, Tables{}, Change{Set: set})
			if chain := rules.Elements()[SetID{Family: f, Kind: SetServices}][0].Value.Chain; chain.N != slots {
				t.Errorf("the chain picks one of %d, want %d", chain.N, slots)
			}
		}
	}
}

// TestWeightChangeCostsTheSlotsThatChange counts the elements of endpoints in a batch.
func TestWeightChangeCostsTheSlotsThatChange(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			shares := slices.Repeat([]uint16{2}, 50)
			rules, _ := Adopt(sampleConfig, Tables{}, Change{Set: []model.Frontend{weightedFrontend(f, p, model.SchedulerRandom, 0, shares...)}})
			for _, test := range []struct {
				share, other   uint16
				added, removed int
			}{{5, 2, 3, 0}, {1, 2, 3, 7}, {2, 1, 2, 2}} {
				shares = slices.Clone(shares)
				shares[7], shares[20] = test.share, test.other
				plan := rules.Plan(Change{Set: []model.Frontend{weightedFrontend(f, p, model.SchedulerRandom, 0, shares...)}})
				added, removed := 0, 0
				for _, op := range plan.Batch {
					switch op := op.(type) {
					case AddElements:
						if op.Set.Kind == SetEndpoints && !op.Set.Local {
							added += len(op.Elements)
						}
					case DeleteElements:
						if op.Set.Kind == SetEndpoints && !op.Set.Local {
							removed += len(op.Elements)
						}
					}
				}
				if added > test.added || removed > test.removed {
					t.Errorf("%s %s: %d elements added, %d removed, want at most %d and %d\n%s", f, p, added, removed, test.added, test.removed, plan.Batch)
				}
				rules.Commit(plan)
			}
		}
	}
}

// TestPoolWithoutWeightsAllocatesNoSlots loads a pool for the first time: its slots are its
// list of endpoints.
func TestPoolWithoutWeightsAllocatesNoSlots(t *testing.T) {
	frontend := weightedFrontend(model.IPv4, model.TCP, model.SchedulerRandom, 0, slices.Repeat([]uint16{1}, 100)...)
	frontend.Pool.ClusterShares, frontend.Pool.LocalShares, frontend.Pool.ClusterWeights, frontend.Pool.LocalWeights = nil, nil, nil, nil
	var none slots
	if n := testing.AllocsPerRun(100, func() { none.next(frontend.Pool) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if got := none.next(frontend.Pool).cluster; &got[0] != &frontend.Pool.Cluster[0] {
		t.Error("the slots are a copy")
	}
}

// TestStepsChangeElementsOfSlotsOnly takes one of some endpoints through a slow start: in no batch is
// an element of a verdict map, a chain or a set.
func TestStepsChangeElementsOfSlotsOnly(t *testing.T) {
	for _, n := range []int{2, 4, 40} { // the last ones in one map for all
		for _, s := range []model.Scheduler{model.SchedulerRandom, model.SchedulerRoundRobin, model.SchedulerLeastConnections} {
			for _, affinity := range []time.Duration{0, time.Hour} {
				at := func(step uint8) Change {
					f := weightedFrontend(model.IPv6, model.SCTP, s, affinity, make([]uint16, n)...)
					f.Pool.ClusterWeights, f.Pool.LocalWeights, f.Pool.Local, f.Pool.LocalShares = nil, nil, nil, nil
					f.Pool.ClusterSteps.Eighths = append(slices.Repeat([]uint8{model.FullStep}, n-1), step)
					f.Pool.ClusterSteps.Slots = model.FullStep*n - model.FullStep + 1
					f.Pool.ClusterShares = f.Pool.SharesOfWeights(false)
					return Change{Set: []model.Frontend{f}}
				}
				rules, _ := Adopt(sampleConfig, Tables{}, at(1))
				for step := uint8(2); step <= model.FullStep; step *= 2 {
					plan, elements := rules.Plan(at(step)), 0
					for _, op := range plan.Batch {
						var set SetID
						switch op := op.(type) {
						case AddElements:
							set, elements = op.Set, elements+len(op.Elements)
						case DeleteElements:
							set = op.Set
						default:
							t.Errorf("%d endpoints, %s: %T", n, s, op)
						}
						if k := set.Kind; k != SetEndpoints && k != SetEndpointsMany && k != SetStickyNumbers {
							t.Errorf("%d endpoints, %s: elements of %s", n, s, set.Name())
						}
					}
					if rules.Commit(plan); elements == 0 || elements > 40 {
						t.Errorf("%d endpoints, %s: step %d changes %d elements", n, s, step, elements)
					}
				}
			}
		}
	}
}
