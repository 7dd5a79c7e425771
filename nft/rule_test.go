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
