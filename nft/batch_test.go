package nft

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
)

// checkSteps checks that steps together are the batch, and that all of them but one, which changes
// what packets meet, add or delete endpoints only, after what the first declares.
func checkSteps(t *testing.T, steps []Batch, batch Batch, limit int) {
	t.Helper()
	if len(steps) > 0 {
		steps = slices.Clone(steps)
		steps[0] = withoutFlushesOfNew(steps[0])
	}
	if got, want := flat(slices.Concat(steps...)), flat(batch); !slices.Equal(got, want) {
		t.Errorf("the steps hold %d lines and the batch %d, or others", len(got), len(want))
	}
	switches := 0
	for i, step := range steps {
		c := step.Counts()
		if i == 0 {
			step = slices.DeleteFunc(slices.Clone(step), declares)
		}
		if !onlyEndpoints(step) {
			switches++
		} else if n := c.Added + c.Deleted; n == 0 || n > limit {
			t.Errorf("step %d changes %d elements", i, n)
		}
	}
	if len(steps) < 2 || switches != 1 {
		t.Errorf("%d of %d steps change what packets meet", switches, len(steps))
	}
}

// withoutFlushesOfNew returns a step without the ops that delete the rules that an earlier attempt
// may have left in its new chains.
func withoutFlushesOfNew(step Batch) Batch {
	return slices.DeleteFunc(slices.Clone(step), func(op Op) bool {
		flush, flushes := op.(FlushChain)
		return flushes && slices.Contains(step, Op(AddChain{ChainNamed(flush.Family, flush.Name)}))
	})
}

// declares reports whether the change is neither an element nor something that a packet reaches
// by itself.
func declares(op Op) bool {
	switch op := op.(type) {
	case AddTable, AddCounter, AddSet:
		return true
	case AddChain:
		return hooks[op.Chain.Kind] == nil
	case AddRule:
		return hooks[op.Chain.Kind] == nil
	}
	return false
}

// onlyEndpoints reports whether a step adds or deletes endpoints, and nothing else.
func onlyEndpoints(b Batch) bool {
	return !slices.ContainsFunc(b, func(op Op) bool {
		id, changes := AddsTo(op)
		if removed, deletes := op.(DeleteElements); deletes {
			id, changes = removed.Set, true
		}
		return !changes || !id.Kind.hasEndpoints()
	})
}

func TestDispatchOfAFirstLoadIsInTheLastStep(t *testing.T) {
	_, batch := load(500)
	batch = append(batch, ForeignChange{Text: "insert rule ip nat KUBE-SERVICES return"})
	for _, limit := range []int{1, 7, 100, 500, 1000} {
		t.Run(fmt.Sprintf("of %d elements", limit), func(t *testing.T) {
			steps := batch.Steps(limit)
			checkSteps(t, steps, batch, limit)
			if slices.ContainsFunc(slices.Concat(steps[1:]...), declares) {
				t.Error("a later step declares tables, counters, sets or chains")
			}
			last := steps[len(steps)-1]
			if got, want := last[len(last)-1].String(), batch[len(batch)-1].String(); got != want {
				t.Errorf("the last change is %s, want %s", got, want)
			}
		})
	}
}

// flat is every object and element of a batch on a line of its own, sorted.
func flat(b Batch) []string {
	var out []string
	for _, op := range b {
		if removed, deletes := op.(DeleteElements); deletes {
			for _, el := range removed.Elements {
				out = append(out, DeleteElements{removed.Set, []Element{el}}.String())
			}
			continue
		}
		id, list, adds := AddedElements(op)
		if !adds {
			out = append(out, op.String())
			continue
		}
		for _, el := range list {
			out = append(out, AddElements{id, []Element{el}}.String())
		}
	}
	slices.Sort(out)
	return out
}

func TestBatchesThatCannotBeDividedAreOneStep(t *testing.T) {
	rules, first := load(100)
	grown := sample(100)
	for i := range grown.Set {
		if grown.Set[i].IsClusterIP() {
			grown.Set[i].Masquerade = model.MasqueradeAlways
		}
	}
	asleep := rules.Tables()
	asleep[model.IPv4].Dormant = true
	asleep[model.IPv6].Dormant = true
	_, awake := Adopt(sampleConfig, asleep, sample(100))
	for name, tt := range map[string]struct {
		batch Batch
		limit int
	}{
		"one that is small enough":         {first, first.Counts().Added},
		"one of dispatching elements":      {withoutChains(rules.Plan(grown).Batch), 1},
		"one that replaces dormant tables": {awake, 1},
		"one of another program, too":      {append(rules.Plan(grown).Batch, ForeignChange{Text: "x"}), StepElements},
		"one with nothing":                 {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			steps := tt.batch.Steps(tt.limit)
			if len(steps) != 1 || !slices.Equal(flat(steps[0]), flat(tt.batch)) {
				t.Errorf("%d elements take %d steps, want the batch as it is", tt.batch.Counts().Added, len(steps))
			}
		})
	}
}

// withoutChains returns the rest of a batch that adds chains.
func withoutChains(b Batch) Batch { return b.Steps(StepElements)[1] }

// TestNewChainsAreCommittedBeforeWhatLeadsThere has a Service with as many endpoints as no other.
func TestNewChainsAreCommittedBeforeWhatLeadsThere(t *testing.T) {
	rules, _ := load(100)
	change := sample(1)
	for i := range change.Set {
		p := change.Set[i].Pool
		for k := len(p.Cluster); k < 40; k++ {
			p.Cluster = append(p.Cluster, netip.AddrPortFrom(p.Cluster[0].Addr(), uint16(9000+k)))
		}
	}
	batch := rules.Plan(change).Batch
	steps := batch.Steps(StepElements)
	if len(steps) != 2 || len(flat(withoutFlushesOfNew(steps[0])))+len(flat(steps[1])) != len(flat(batch)) {
		t.Fatalf("%d steps of\n%s", len(steps), batch)
	}
	if c := steps[0].Counts(); c.Added+c.Deleted > 0 {
		t.Errorf("elements before the chains are there:\n%s", steps[0])
	}
	if again := rulesAfter(append(steps[0], steps[0]...)); !maps.EqualFunc(again, rulesAfter(steps[0]), slices.Equal) {
		t.Error("the new chains have more rules if they are committed again")
	}
	fresh := map[ChainID]bool{}
	for _, op := range steps[0] {
		switch op := op.(type) {
		case AddChain:
			fresh[op.Chain] = true
		case AddRule:
			if !fresh[op.Chain] {
				t.Errorf("a rule of %s, which exists, changes before", op.Chain.Name())
			}
		}
	}
	for _, op := range steps[1] {
		if op, late := op.(AddChain); late {
			t.Errorf("chain %s is as late as what leads there", op.Chain.Name())
		}
	}
}

// moved is a sample whose endpoints have another port.
func moved(n int) Change {
	c := sample(n)
	for i := range c.Set {
		p := c.Set[i].Pool
		for _, list := range [...][]netip.AddrPort{p.Cluster, p.Local} {
			for k := range list {
				list[k] = netip.AddrPortFrom(list[k].Addr(), 8081)
			}
		}
	}
	return c
}

// TestLargeChangeTakesEffectInOneStep has a rule set grow and shrink, and keys that the change
// replaces.
func TestLargeChangeTakesEffectInOneStep(t *testing.T) {
	const limit = 50
	rules, _ := load(100)
	more := rules.Plan(sample(300))
	rules.Commit(more)
	less := Change{}
	for _, f := range sample(300).Set[200:] {
		less.Removed = append(less.Removed, f.Match)
	}
	replaced := moved(300)
	replaced.Set[0].Service.Name = "renamed" // to get a switch
	for name, batch := range map[string]Batch{
		"grow": more.Batch, "shrink": rules.Plan(less).Batch, "replace endpoints": rules.Plan(replaced).Batch,
	} {
		t.Run(name, func(t *testing.T) { checkSteps(t, batch.Steps(limit), batch, limit) })
	}
}

// TestRestOfABatchIsWhatWasNotCommitted has each of the steps refused once. The rest is committed in
// smaller steps.
func TestRestOfABatchIsWhatWasNotCommitted(t *testing.T) {
	const limit = 500
	rules, first := load(10)
	change := moved(30)
	for _, f := range change.Set[:5] {
		change.Removed = append(change.Removed, f.Match)
	}
	change.Set = change.Set[5:]
	for name, batch := range map[string]Batch{
		"a first load": first, "a change": rules.Plan(change).Batch, "replaced endpoints": rules.Plan(moved(10)).Batch,
	} {
		want := flat(withoutFlushes(batch))
		for refused := range batch.Steps(limit) {
			var all Batch
			next := 0
			commit := func(step Batch) error {
				if next++; next-1 == refused || next-1 == refused+1 { // also to remove the chains again
					return errors.New("no memory")
				}
				all = append(all, withoutFlushes(step)...)
				return nil
			}
			done, rest, err := batch.CommitSteps(limit, commit)
			if err == nil || done != refused {
				t.Fatalf("%s: %d steps, %v; want the error of step %d", name, done, err, refused)
			}
			next = refused + 2
			_, _, err = rest.CommitSteps(limit/5, commit)
			if got := flat(all); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: after step %d was refused, %v; %d lines are committed, want %d", name, refused, err, len(got), len(want))
			}
		}
	}
}

// withoutFlushes returns a batch without the ops that may be repeated.
func withoutFlushes(b Batch) Batch {
	return slices.DeleteFunc(slices.Clone(b), func(op Op) bool { _, flushes := op.(FlushChain); return flushes })
}

func TestStepAtTheLimitIsNotInTheSwitch(t *testing.T) {
	_, batch := load(100)
	endpoints := 0
	for _, op := range batch {
		if op, adds := op.(AddFrontends); adds && op.Set.Kind.hasEndpoints() {
			endpoints += op.Len()
		}
	}
	if steps := batch.Steps(endpoints); len(steps) != 2 || steps[0].Counts().Added != endpoints {
		t.Errorf("%d endpoints and what jumps to them take %d steps, want 2", endpoints, len(steps))
	}
}

// A load may end between two steps, or one of the tables be deleted.
func TestRestOfAFirstLoadIsDividedToo(t *testing.T) {
	rules, _ := load(100)
	have := rules.Tables()
	for f := range have {
		have[f].Chains = map[string]ChainState{}
		for name, set := range have[f].Sets {
			set.Elements = nil
			have[f].Sets[name] = set
		}
	}
	halfThere := rules.Tables()
	halfThere[model.IPv6] = nil
	for name, tables := range map[string]Tables{"ended after the sets": have, "one table is removed": halfThere} {
		_, rest := Adopt(sampleConfig, tables, sample(100))
		if steps := rest.Steps(1000); len(steps) < 2 {
			t.Errorf("%s: %d elements take %d steps", name, rest.Counts().Added, len(steps))
		}
	}
}

// A writer begins again, with smaller steps, if the kernel has no memory for one.
func TestFirstLoadMayBeginAgain(t *testing.T) {
	rules, batch := load(100)
	first := batch.Steps(1000)
	chains := rulesAfter(append(slices.Concat(first[:len(first)-1]...), slices.Concat(batch.Steps(100)...)...))
	for _, id := range rules.chains() {
		if got, want := chains[id], rules.fingerprints(id); !slices.Equal(got, want) {
			t.Errorf("chain %s has %d rules, want %d", id.Name(), len(got), len(want))
		}
	}
}

// rulesAfter returns the rules that a batch leaves in chains.
func rulesAfter(b Batch) map[ChainID][]Fingerprint {
	chains := map[ChainID][]Fingerprint{}
	for _, op := range b {
		switch op := op.(type) {
		case FlushChain:
			delete(chains, ChainNamed(op.Family, op.Name))
		case AddRule:
			chains[op.Chain] = append(chains[op.Chain], op.Rule.Fingerprint())
		}
	}
	return chains
}

func TestCountsOfABatch(t *testing.T) {
	rules, batch := load(10)
	elements := 0
	for _, list := range rules.Elements() {
		elements += len(list)
	}
	counts := batch.Counts()
	if cost := (Counts{Added: 3, Deleted: 4, Objects: 2}).Cost(); cost != 27 {
		t.Errorf("seven elements and two objects cost %d, want 27", cost)
	}
	if counts.Added != elements || counts.Deleted != 0 || counts.Objects < len(rules.Elements()) {
		t.Errorf("a first load counts as %+v, want %d added", counts, elements)
	}
	removed := Change{ServiceCIDRs: &[]netip.Prefix{}, NodeAddrs: &[]netip.Addr{}}
	for _, fe := range sample(10).Set {
		removed.Removed = append(removed.Removed, fe.Match)
	}
	if counts := rules.Plan(removed).Batch.Counts(); counts.Added != 0 || counts.Deleted == 0 || counts.Objects == 0 {
		t.Errorf("deleting all counts as %+v", counts)
	}
}

func TestPlanChangesNothingUntilCommit(t *testing.T) {
	rules, _ := load(20)
	before, text := *rules, rendered(t, rules)
	before.frontends, before.uses = rules.frontends.clone(), maps.Clone(rules.uses)
	before.shared, before.counts, before.sizes = maps.Clone(rules.shared), maps.Clone(rules.counts), maps.Clone(rules.sizes)
	plan := rules.Plan(sample(900)) // sets outgrow their size
	if !reflect.DeepEqual(*rules, before) || rendered(t, rules) != text {
		t.Error("a plan changed the state")
	}
	rules.Commit(plan)
	fresh, _ := load(900)
	rules.sizes = fresh.sizes
	if rendered(t, rules) != rendered(t, fresh) {
		t.Error("a committed plan results in another state than a fresh start")
	}
}

// rendered is the whole state as text.
func rendered(t *testing.T, r *Ruleset) string {
	t.Helper()
	var s strings.Builder
	if err := r.Render(&s); err != nil {
		t.Fatal(err)
	}
	return s.String()
}

// TestNumbersOfEndpointsAreKnownInEveryStep replaces endpoints with remembered clients:
// their numbers must map to an endpoint between any two steps.
func TestNumbersOfEndpointsAreKnownInEveryStep(t *testing.T) {
	rules, _ := load(100)
	batch := rules.Plan(moved(100)).Batch
	for _, limit := range []int{1, 2, 7, 50, 111, 1000} {
		held := heldBy(rules)
		for i, step := range batch.Steps(limit) {
			held.apply(step)
			for k, v := range held[SetID{Kind: SetStickyNumbers}] {
				k.Pick = v.Number
				if _, known := held[SetID{Kind: SetStickyEndpoints}][k]; !known {
					t.Fatalf("steps of %d: after step %d, %v has no endpoint", limit, i, k)
				}
			}
		}
	}
}

// TestReplacedChainIsNotAddedBeforeItsDeletion has tables without elements, and a chain of ours that
// another program has attached to a hook.
func TestReplacedChainIsNotAddedBeforeItsDeletion(t *testing.T) {
	rules, _ := load(100)
	have, chain := rules.Tables(), ChainID{Family: model.IPv4, Kind: ChainReject}
	for f := range have {
		for name, set := range have[f].Sets {
			set.Elements = nil
			have[f].Sets[name] = set
		}
	}
	state := have[chain.Family].Chains[chain.Name()]
	state.Hook = ChainID{Family: chain.Family, Kind: ChainFilterInput}.Hook()
	have[chain.Family].Chains[chain.Name()] = state
	_, batch := Adopt(sampleConfig, have, sample(100))
	steps := batch.Steps(1000)
	all := slices.Concat(steps...)
	deleted := slices.Index(all, Op(DeleteChain{chain.Family, chain.Name()}))
	if added := slices.Index(all, Op(AddChain{chain})); len(steps) < 2 || deleted < 0 || added < deleted {
		t.Errorf("change %d of %d steps deletes the chain, and %d adds it", deleted, len(steps), added)
	}
}
