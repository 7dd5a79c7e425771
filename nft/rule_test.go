package nft

import (
	"flag"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

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
	keeping.DropInvalid, keeping.CountConnections = false, false
	bridge, veths := sampleConfig, sampleConfig
	bridge.PodInterface = Interface{Name: "cbr0"}
	veths.PodInterface = Interface{Name: "veth", Prefix: true}
	for _, c := range []Config{sampleConfig, blind, other, everybody, keeping, bridge, veths} {
		for _, f := range model.Families {
			for _, id := range realChains(f) {
				if !tellsMore(id) {
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

// someLengths are the sets of a table in which few lengths of prefixes are in use.
func someLengths(id SetID) bool {
	return slices.Contains([]int{1, 24, 31, 32, 48, 61, 127, 128}, int(id.Slot))
}

// tellsMore picks chains whose rules are not like those of another one but for
// a number in a name.
func tellsMore(id ChainID) bool {
	few := []Sticky{
		{netip.MustParseAddrPort("10.1.0.7:80"), model.TCP, 10800},
		{netip.MustParseAddrPort("10.1.0.7:80"), model.UDP, 1},
		{netip.MustParseAddrPort("10.1.0.7:80"), model.SCTP, 86400},
		{netip.MustParseAddrPort("[2001:db8:1:2:3:4:5:6]:80"), model.TCP, 10800},
		{netip.MustParseAddrPort("[::1]:65535"), model.SCTP, 86400},
	}
	switch {
	case id.Kind < baseChains:
		return true
	case id.Kind == ChainStickyEndpoint:
		return slices.Contains(few, id.Sticky.Value())
	case id.Kind == ChainEndpoint || id.Kind == ChainStickyPick:
		return id.N <= 3
	case id.Kind != ChainBalance && id.Method != pickRandom:
		return false
	}
	return id.N <= 3 || id.N == MaxSlots+1 || id.Method == pickMaglev && id.N == maglevSize && !id.Local
}

// expressions is a number for what the kernel runs for a rule.
func expressions(t *testing.T, f model.Family, r Rule) uint64 {
	t.Helper()
	h := fnv.New64a()
	for _, s := range r {
		for _, chain := range s.choices {
			h.Write([]byte(chain.Name() + "\n"))
		}
		for _, p := range s.protocols {
			h.Write([]byte{byte(p)})
		}
		for _, x := range s.expressions {
			b, err := marshal(f, x)
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
func TestAFingerprintStandsForTheSameExpressionsForEver(t *testing.T) {
	var now []string
	for text, r := range allRules() {
		name, rule, _ := strings.Cut(text, " ")
		f := model.IPv4
		if name == families[model.IPv6].name {
			f = model.IPv6
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
			t.Errorf("fingerprint %s stood for\n\t%s\nand stands for\n\t%s\nencodingVersion must change", fingerprint, before, rest)
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

func TestRulesHaveFingerprintsOfTheirOwn(t *testing.T) {
	seen := map[Fingerprint]string{}
	for _, r := range allRules() {
		mark := r.Fingerprint()
		if other, twice := seen[mark]; twice && other != r.String() {
			t.Errorf("%q and %q have the same fingerprint", r, other)
		}
		seen[mark] = r.String()
		if mark == 0 {
			t.Errorf("%q has the fingerprint of a foreign rule", r)
		}
		if got := fingerprintIn(mark.userdata()); got != mark {
			t.Errorf("fingerprint %x is read as %x", mark, got)
		}
	}
}

func TestAFingerprintIsFoundAmongOtherUserdata(t *testing.T) {
	const mark = Fingerprint(0x0123456789abcdef)
	comment := []byte{0, 3, 'h', 'i', 0}
	for name, tt := range map[string]struct {
		userdata []byte
		want     Fingerprint
	}{
		"none":                         {nil, 0},
		"behind a comment":             {append(slices.Clone(comment), mark.userdata()...), mark},
		"before a comment":             {append(mark.userdata(), comment...), mark},
		"only a comment":               {comment, 0},
		"cut":                          {mark.userdata()[:9], 0},
		"of another length":            {[]byte{fingerprintTag, 2, 1, 2}, 0},
		"a comment longer than it is":  {[]byte{0, 200, 'h'}, 0},
		"a byte that belongs to none":  {append(mark.userdata(), 7), mark},
		"a comment that looks like it": {append([]byte{0, 10}, mark.userdata()...), 0},
	} {
		if got := fingerprintIn(tt.userdata); got != tt.want {
			t.Errorf("%s: it is read as %x, want %x", name, got, tt.want)
		}
	}
}
