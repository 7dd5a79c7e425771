package nft

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// namesIn are the names of the chains and sets that the expressions of rules refer to.
func namesIn(rules []Rule) (chains, sets map[string]bool) {
	chains, sets = map[string]bool{}, map[string]bool{}
	for _, r := range rules {
		for _, s := range r {
			for _, c := range s.Choices {
				chains[c.Name()] = true
			}
			for _, x := range s.Expressions {
				switch x := x.(type) {
				case *expr.Verdict:
					chains[x.Chain] = true
				case *expr.Lookup:
					sets[x.SetName] = true
				case *expr.Dynset:
					sets[x.SetName] = true
				}
			}
		}
	}
	delete(chains, "") // a verdict that jumps nowhere
	delete(sets, anonymousMap)
	delete(sets, anonymousSet)
	return chains, sets
}

// realChains are the chains that can exist: of allChains, without numbers that no Service
// has, and forms that nothing jumps to.
func realChains(f model.Family) []ChainID {
	return slices.DeleteFunc(allChains(f), func(id ChainID) bool {
		switch id.Kind {
		case ChainService:
		case ChainExternal, ChainExternalLocal:
			if id.Local {
				return true
			}
		case ChainBalance, ChainCluster, ChainMasquerade:
			if id.NodePort {
				return true
			}
		case ChainEndpoint:
			return id.N >= MaxSlots || id.NodePort
		case ChainStickyEndpoint, ChainStickyClient, ChainStickyNew:
			return id.NodePort
		case ChainStickyPick:
			return id.N == 0 || id.NodePort
		default:
			return false
		}
		few := id.Method.once() == pickSourceHash || id.Method.isMaglev()
		return id.N == 0 || few && id.N > MaxSlots || id.Method == pickSticky && id.Seconds == 0
	})
}

// everySet reports that a table has every set.
func everySet(SetID) bool { return true }

// References decide which chains and sets exist, and which rules are rewritten when a set
// is rebuilt.
func TestStatementsHaveReferencesOfTheirExpressions(t *testing.T) {
	for _, f := range model.Families {
		for _, id := range realChains(f) {
			rules := sampleConfig.rules(id, everySet)
			wantChains, wantSets := namesIn(rules)
			chains, sets := map[string]bool{}, map[string]bool{}
			for _, o := range references(rules) {
				if o.isSet {
					sets[o.set.Name()] = true
				} else {
					chains[o.chain.Name()] = true
				}
			}
			if !maps.Equal(chains, wantChains) || !maps.Equal(sets, wantSets) {
				t.Fatalf("the rules of %s refer to %v, %v, want %v, %v", id.Name(), chains, sets, wantChains, wantSets)
			}
		}
	}
}

// See edit.rebuild for the kernel that loses count otherwise.
func TestElementsAreDeletedWithTheirSet(t *testing.T) {
	rules, _ := load(60)
	var removed Change
	for f := range rules.frontends.all() {
		removed.Removed = append(removed.Removed, f.Match)
	}
	_, found := Adopt(sampleConfig, rules.Tables(), Change{})
	for name, batch := range map[string]Batch{"a change": rules.Plan(removed).Batch, "a restart": found} {
		emptied, sets := map[string]bool{}, 0
		for _, op := range batch {
			switch op := op.(type) {
			case DeleteElements:
				emptied[families[op.Set.Family].name+op.Set.Name()] = true
			case DeleteSet:
				if sets++; emptied[families[op.Family].name+op.Name] {
					t.Errorf("%s deletes elements of %s, which goes", name, op.Name)
				}
			}
		}
		if sets == 0 {
			t.Errorf("%s deletes no set", name)
		}
	}
}

func TestChainsThatReadASet(t *testing.T) {
	rules, _ := load(12)
	for _, tt := range []struct {
		set  SetID
		want []ChainID
	}{
		{SetID{Kind: SetAllowedSources, Slot: 32}, []ChainID{{Kind: ChainSourceCheck}, {Kind: ChainNodePortCheck}}},
		{SetID{Kind: SetEndpointIPs}, []ChainID{{Kind: ChainFilterPrerouting}}},
		{SetID{Family: model.IPv6, Kind: SetEndpoints}, []ChainID{{Family: model.IPv6, Kind: ChainEndpoint}}},
	} {
		if got := tt.set.readBy(rules.chains(), rules.cache); !slices.Equal(got, tt.want) {
			t.Errorf("%s is read by %v, want %v", tt.set.Name(), got, tt.want)
		}
	}
}

// TestReadersOfSetsAreKnown checks that the rules of a chain are written again when a set that they can
// refer to is replaced, also where they do only next to another set: the kernel deletes no set in use.
func TestReadersOfSetsAreKnown(t *testing.T) {
	c := &Config{}
	cache := newReferenceCache(c)
	for _, f := range model.Families {
		for _, id := range realChains(f) {
			for _, o := range references(c.rules(id, func(SetID) bool { return true })) {
				if o.isSet && len(o.set.readBy([]ChainID{id}, cache)) == 0 {
					t.Errorf("%s refers to %s, which does not know it", id.Name(), o.set.Name())
				}
			}
		}
	}
}

// TestNoElementLeadsToAnotherVerdictMap keeps loads and changes linear before the kernel's
// fix 8e1a1bc4f5a4: a map in a chain that elements jump to is checked once for each of
// them.
func TestNoElementLeadsToAnotherVerdictMap(t *testing.T) {
	for _, f := range model.Families {
		for _, id := range realChains(f) {
			if id.Kind < baseChains {
				continue // elements of services do not jump there
			}
			for _, rule := range sampleConfig.rules(id, someLengths) {
				for _, s := range rule {
					for _, set := range s.sets {
						if set.Layout().Content == ContentVerdict {
							t.Errorf("%s: %s", id.Name(), rule)
						}
					}
				}
			}
		}
	}
}
