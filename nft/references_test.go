package nft

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
	"kube-vmap/nft/nfttest"
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
	delete(chains, "") // a verdict that leads nowhere
	delete(sets, anonymousMap)
	delete(sets, anonymousSet)
	return chains, sets
}

// realChains are the chains that may come to be: of allChains, without numbers
// that no Service has, and forms that nothing leads to.
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
		few := id.Method == pickSourceHash || id.Method == pickMaglev
		return id.N == 0 || few && id.N > MaxSlots || id.Method == pickSticky && id.Seconds == 0
	})
}

// everySet is what a table has that has all sets.
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

// The cache leaves out what differs from one chain of a kind to another.
func TestReferenceCacheEqualsRules(t *testing.T) {
	config := sampleConfig
	cache := newReferenceCache(&config)
	none := func(SetID) bool { return false }
	for _, f := range model.Families {
		for _, id := range realChains(f) {
			if got, want := cache.of(id), references(config.rules(id, none)); !slices.Equal(got, want) {
				t.Fatalf("%s refers to %v, want %v", id.Name(), got, want)
			}
		}
	}
}

// checkUses asserts that the state counts what there is, nothing less or more,
// and that everything to which an element or a rule refers exists.
func checkUses(t *testing.T, r *Ruleset) {
	t.Helper()
	all := Change{ServiceCIDRs: &r.cidrs, NodeAddrs: &r.nodeAddrs}
	for p := range r.frontends.all() {
		all.Set = append(all.Set, p.Frontend)
	}
	fresh, _ := Adopt(r.config, Tables{}, all)
	if !maps.Equal(r.uses, fresh.uses) || !maps.Equal(r.shared, fresh.shared) || r.endpoints != fresh.endpoints {
		t.Errorf("uses are\n%v\nshared elements\n%v\nand %d endpoints, want\n%v\n%v\n%d",
			r.uses, r.shared, r.endpoints, fresh.uses, fresh.shared, fresh.endpoints)
	}
	counts := map[SetID]int{}
	for id, list := range r.Elements() {
		if len(list) != r.counts[id] {
			t.Errorf("%s holds %d elements, counted %d", id.Name(), len(list), r.counts[id])
		}
		counts[id] = len(list)
	}
	checkReferences(t, r)
	for id := range r.sizes {
		if id.Kind >= baseSets && counts[id] == 0 && (id.Kind == SetAllowedSources || len(id.readBy(r.chains(), r.cache)) == 0) {
			t.Errorf("%s is left over", id.Name())
		}
	}
}

// checkReferences asserts that nothing refers to what is not there.
func checkReferences(t *testing.T, r *Ruleset) {
	t.Helper()
	tables := r.Tables()
	for f, table := range tables {
		for _, id := range r.chains() {
			if id.Family != model.Family(f) {
				continue
			}
			chains, sets := namesIn(r.rules(id))
			for name := range chains {
				if _, exists := table.Chains[name]; !exists {
					t.Errorf("%s leads to %s, which is missing", id.Name(), name)
				}
			}
			for name := range sets {
				if _, exists := table.Sets[name]; !exists {
					t.Errorf("%s reads %s, which is missing", id.Name(), name)
				}
			}
		}
		for name, set := range table.Sets {
			for _, e := range set.Elements {
				if _, exists := table.Chains[e.Value.Chain.Name()]; e.Value.Verdict == VerdictGoto && !exists {
					t.Errorf("an element of %s leads to %s, which is missing", name, e.Value.Chain.Name())
				}
			}
		}
	}
	for id, list := range r.Elements() {
		if _, exists := r.sizes[id]; len(list) > 0 && !exists {
			t.Errorf("%s has %d elements and is not there", id.Name(), len(list))
		}
	}
}

func TestReferenceCountsFollowEveryChange(t *testing.T) {
	rules, _ := Adopt(sampleConfig, Tables{}, Change{})
	checkUses(t, rules)
	for step := range 40 {
		var c Change
		for i := range 30 {
			if (i+step)%4 != 0 {
				continue
			}
			for _, f := range model.Families {
				// The same Service again as another one is, so that all it has changes.
				shape := nfttest.Service(f, (i+step*7)%60)
				c.merge(rules, moved(shape, nfttest.Service(f, i)[0].Pool.Key), nfttest.Service(f, i)[0].Pool.Key, (i+step)%3 == 0)
			}
		}
		rules.Commit(rules.Plan(c))
		checkUses(t, rules)
		if t.Failed() {
			t.Fatalf("after step %d", step)
		}
	}
	var gone Change
	for f := range rules.frontends.all() {
		gone.Gone = append(gone.Gone, f.Match)
	}
	rules.Commit(rules.Plan(gone))
	checkUses(t, rules)
	if !maps.Equal(rules.uses, newRuleset(sampleConfig).uses) || len(rules.shared) > 0 || rules.endpoints != 0 {
		t.Errorf("of no Service there are left: %v, %v, %d endpoints", rules.uses, rules.shared, rules.endpoints)
	}
}

// moved is a Service with another ClusterIP.
func moved(service []model.Frontend, key model.Match) []model.Frontend {
	pool := *service[0].Pool
	pool.Key = key
	out := slices.Clone(service)
	for i := range out {
		out[i].Pool = &pool
		out[i].Match.Family, out[i].Match.Protocol = key.Family, key.Protocol
		switch {
		case i == 0:
			out[i].Match = key
		case out[i].Kind == model.KindNodePort:
			out[i].Match.Port = 30000 + uint16(key.Addr.AsSlice()[len(key.Addr.AsSlice())-1])
		default:
			a := key.Addr.AsSlice()
			a[1] ^= byte(out[i].Kind)
			out[i].Match.Addr, _ = netip.AddrFromSlice(a)
			out[i].Match.Port = key.Port
		}
	}
	return out
}

// merge has the Service of a pool become another one, or go.
func (c *Change) merge(r *Ruleset, next []model.Frontend, key model.Match, gone bool) {
	if gone {
		next = nil
	}
	c.Set = append(c.Set, next...)
	for p := range r.frontends.all() {
		stays := slices.ContainsFunc(next, func(f model.Frontend) bool { return f.Match == p.Match })
		if p.Pool.Key == key && !stays {
			c.Gone = append(c.Gone, p.Match)
		}
	}
}

// A Service may have endpoints that none of its frontends leads to: where its
// ClusterIP is for endpoints of this node, and its external address another
// Service's.
func TestUnusedEndpointsHaveSets(t *testing.T) {
	for _, f := range model.Families {
		for _, affinity := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(families[f].name, " ", affinity), func(t *testing.T) {
				service := nfttest.Service(f, 13)[:1]
				service[0].Pool.Affinity = affinity
				service[0].Policy, service[0].Pool.Local = model.PolicyLocal, service[0].Pool.Cluster[:1]
				rules, _ := Adopt(sampleConfig, Tables{}, Change{Set: service})
				checkUses(t, rules)
				rules.Commit(rules.Plan(Change{Gone: []model.Match{service[0].Match}}))
				checkUses(t, rules)
				rules.Commit(rules.Plan(Change{Set: service}))
				checkUses(t, rules)
			})
		}
	}
}

// See edit.rebuild for the kernel that loses count otherwise.
func TestElementsAreDeletedWithTheirSet(t *testing.T) {
	rules, _ := load(60)
	var gone Change
	for f := range rules.frontends.all() {
		gone.Gone = append(gone.Gone, f.Match)
	}
	_, found := Adopt(sampleConfig, rules.Tables(), Change{})
	for name, batch := range map[string]Batch{"a change": rules.Plan(gone).Batch, "a restart": found} {
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
		want ChainID
	}{
		{SetID{Kind: SetAllowedSources, Slot: 32}, ChainID{Kind: ChainSourceCheck}},
		{SetID{Kind: SetEndpointIPs}, ChainID{Kind: ChainFilterPrerouting}},
		{SetID{Family: model.IPv6, Kind: SetEndpoints}, ChainID{Family: model.IPv6, Kind: ChainEndpoint}},
	} {
		if got := tt.set.readBy(rules.chains(), rules.cache); !slices.Equal(got, []ChainID{tt.want}) {
			t.Errorf("%s is read by %v, want %s", tt.set.Name(), got, tt.want.Name())
		}
	}
}
