package nft

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

var update = flag.Bool("update", false, "rewrite testdata")

const rulesFile = "testdata/rules.txt"

// allRules is a rule of every kind, by its text.
func allRules() map[string]Rule {
	rules := map[string]Rule{}
	blind := sampleConfig
	blind.Pods[model.IPv4] = netip.Prefix{}
	other := sampleConfig
	other.MasqueradeMark = 1
	other.Pods[model.IPv4] = prefixesOf("192.0.2.7/32")[0]
	everybody := sampleConfig
	everybody.Pods[model.IPv4] = prefixesOf("0.0.0.0/0")[0]
	keeping := sampleConfig
	keeping.DropInvalid, keeping.NoLabels = false, true
	keeping.CountConnections, keeping.PassiveHealth = false, false
	bridge, veths := sampleConfig, sampleConfig
	bridge.PodInterface = Interface{Name: "cbr0"}
	veths.PodInterface = Interface{Name: "veth", Prefix: true}
	for _, c := range []Config{sampleConfig, blind, other, everybody, keeping, bridge, veths} {
		for _, f := range model.Families {
			for _, id := range realChains(f) {
				if !isDistinct(id) {
					continue
				}
				for _, r := range c.rules(id, someLengths) {
					rules[families[f].name+" "+r.String()] = r
				}
			}
		}
	}
	return rules
}

// someLengths are the sets of a table with few lengths of prefixes in use.
func someLengths(id SetID) bool {
	return slices.Contains([]int{1, 24, 31, 32, 48, 61, 127, 128}, int(id.Slot))
}

// isDistinct reports whether the rules of a chain differ from the rules of other chains by
// more than a number in a name.
func isDistinct(id ChainID) bool {
	switch {
	case id.Kind < baseChains:
		return true
	case id.Kind == ChainEndpoint:
		return id.N <= 1
	case id.Method == pickSticky && id.Seconds != 10800 && id.N != 2:
		return false
	case id.Kind != ChainBalance && id.Method != pickRandom:
		return false
	}
	return id.N <= 2 || id.N == MaxSlots+1 || id.Method == pickMaglev && id.N == maglevSize && !id.Local
}

// expressions is a number for the expressions that the kernel runs for a rule.
func expressions(t *testing.T, f model.Family, r Rule) uint64 {
	t.Helper()
	h := fnv.New64a()
	for _, s := range r {
		for _, chain := range s.Choices {
			h.Write([]byte(chain.Name() + "\n"))
		}
		for _, p := range s.Protocols {
			h.Write([]byte{byte(p)})
		}
		for _, x := range s.Expressions {
			if w, ours := x.(PayloadWrite); ours {
				h.Write(fmt.Appendf(nil, "%+v", w))
				continue
			}
			b, err := expr.Marshal(families[f].number, x.(expr.Any))
			if err != nil {
				t.Fatal(err)
			}
			h.Write(b)
		}
	}
	return h.Sum64()
}

// A node that starts with a new version must know by the fingerprints whether
// the rules that the old one left mean the same.
func TestFingerprintsOfRulesAreStable(t *testing.T) {
	var now []string
	for text, r := range allRules() {
		name, rule, _ := strings.Cut(text, " ")
		f := model.IPv4
		if name == families[model.IPv6].name {
			f = model.IPv6
		}
		if r.Fingerprint() == 0 {
			t.Errorf("%q has the fingerprint of a foreign rule", r)
		}
		now = append(now, fmt.Sprintf("%-3s %016x = %016x %s", name, uint64(r.Fingerprint()), expressions(t, f, r), rule))
	}
	slices.Sort(now)
	golden, err := os.ReadFile(rulesFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(golden)) {
		fingerprint, rest, _ := strings.Cut(strings.TrimSpace(line), " = ")
		known[fingerprint] = rest
	}
	for _, line := range now {
		fingerprint, rest, _ := strings.Cut(line, " = ")
		if before := known[fingerprint]; before != "" && before != rest {
			t.Errorf("fingerprint %s was computed for\n\t%s\nand is computed for\n\t%s\nencodingVersion must change", fingerprint, before, rest)
		}
	}
	text := strings.Join(now, "\n") + "\n"
	if *update && !t.Failed() {
		if err := os.WriteFile(rulesFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !*update && text != string(golden) {
		t.Errorf("%s is not what rules are; run with -update and read what changed", rulesFile)
	}
}

// cutComment is the comment of an element that has this one, behind other text.
func cutComment(comment string) string {
	e := Element{Comment: comment}
	return strings.TrimPrefix(string(e.AppendComment([]byte("# "))), "# ")
}

// webPort is a Service port.
var webPort = model.ServicePortName{ServiceName: model.ServiceName{Namespace: "shop", Name: "web"}, Port: "http"}

func TestLongCommentsAreCut(t *testing.T) {
	for name, tt := range map[string]struct{ comment, want string }{
		"none":                            {"", ""},
		"a short one":                     {"shop/web:http", "shop/web:http"},
		"one that just fits":              {strings.Repeat("a", 127), strings.Repeat("a", 127)},
		"one of a byte too many":          {strings.Repeat("a", 128), strings.Repeat("a", 124) + "..."},
		"a very long one":                 {strings.Repeat("a", 1000), strings.Repeat("a", 124) + "..."},
		"one cut between characters":      {strings.Repeat("ä", 64), strings.Repeat("ä", 62) + "..."},
		"one that would end in half of ä": {"a" + strings.Repeat("ä", 64), "a" + strings.Repeat("ä", 61) + "..."},
		"one without the start of any":    {strings.Repeat("\x80", 128), "..."},
		"one that would end in half of 世": {strings.Repeat("世", 43), strings.Repeat("世", 41) + "..."},
	} {
		if got := cutComment(tt.comment); got != tt.want {
			t.Errorf("%s, %q, is cut to %q, want %q", name, tt.comment, got, tt.want)
		}
	}
}

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
