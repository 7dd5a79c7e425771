package nft

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestStepsTogetherAreTheBatch(t *testing.T) {
	_, batch := load(500)
	for _, limit := range []int{1, 7, 100, 500, 1000} {
		t.Run(fmt.Sprintf("of %d elements", limit), func(t *testing.T) {
			steps := batch.Steps(limit)
			if len(steps) < 2 {
				t.Fatalf("%d elements take %d steps", batch.Counts().Added, len(steps))
			}
			var joined Batch
			for _, step := range steps {
				joined = append(joined, step...)
			}
			if got, want := flat(joined), flat(batch); !slices.Equal(got, want) {
				t.Errorf("the steps hold %d lines and the batch %d, or others", len(got), len(want))
			}
			for i, step := range steps[:len(steps)-1] {
				if n := step.Counts().Added; n > limit || n == 0 {
					t.Errorf("step %d adds %d elements", i, n)
				}
			}
		})
	}
}

// flat is every object and element of a batch on a line of its own, sorted.
func flat(b Batch) []string {
	var out []string
	for _, op := range b {
		if gone, deletes := op.(DeleteElements); deletes {
			for _, el := range gone.Elements {
				out = append(out, DeleteElements{gone.Set, []Element{el}}.String())
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

func TestDispatchIsInTheLastStep(t *testing.T) {
	_, batch := load(500)
	foreign := ForeignChange{Text: "insert rule ip nat KUBE-SERVICES return"}
	steps := append(batch, foreign).Steps(100)
	if last := steps[len(steps)-1]; last[len(last)-1].String() != foreign.Text {
		t.Errorf("the last change is %s, want %s", last[len(last)-1], foreign)
	}
	for i, step := range steps {
		for _, op := range step {
			last := i == len(steps)-1
			switch op.(type) {
			case AddTable, AddCounter, AddSet:
				if i > 0 {
					t.Errorf("step %d declares: %v", i, op)
				}
			default:
				if id, _, adds := AddedElements(op); !last && !(adds && id.Kind.hasEndpoints()) {
					t.Errorf("step %d: %v", i, op)
				}
			}
		}
	}
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
	if len(steps) != 2 || len(flat(steps[0]))+len(flat(steps[1])) != len(flat(batch)) {
		t.Fatalf("%d steps of\n%s", len(steps), batch)
	}
	if c := steps[0].Counts(); c.Added+c.Deleted > 0 {
		t.Errorf("elements before the chains are there:\n%s", steps[0])
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

// TestLargeChangeTakesEffectInOneStep has a rule set grow and shrink: before and after the
// switch, there are endpoints only, and none of a key that the change replaces.
func TestLargeChangeTakesEffectInOneStep(t *testing.T) {
	const limit = 50
	rules, _ := load(100)
	more := rules.Plan(sample(300))
	grown := more.Batch
	rules.Commit(more)
	less := Change{}
	for _, f := range sample(300).Set[200:] {
		less.Gone = append(less.Gone, f.Match)
	}
	moved := sample(300)
	for i := range moved.Set {
		p := moved.Set[i].Pool
		for _, list := range [...][]netip.AddrPort{p.Cluster, p.Local} {
			for k := range list {
				list[k] = netip.AddrPortFrom(list[k].Addr(), 8081)
			}
		}
	}
	moved.Set[0].Service.Name = "renamed" // so that there is a switch
	for name, batch := range map[string]Batch{
		"grow": grown, "shrink": rules.Plan(less).Batch, "replace endpoints": rules.Plan(moved).Batch,
	} {
		steps := batch.Steps(limit)
		if len(steps) < 3 {
			t.Fatalf("%s: %d steps", name, len(steps))
		}
		var joined Batch
		switches := 0
		for _, step := range steps {
			joined = append(joined, step...)
			if !onlyEndpoints(step) {
				switches++
			} else if c := step.Counts(); c.Added+c.Deleted > limit {
				t.Errorf("%s: a step beside the switch has %+v", name, c)
			}
		}
		if switches != 1 || !slices.Equal(flat(joined), flat(batch)) {
			t.Errorf("%s: %d of %d steps change what packets meet; all is there: %t",
				name, switches, len(steps), slices.Equal(flat(joined), flat(batch)))
		}
	}
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
		t.Errorf("%d endpoints and what leads to them take %d steps, want 2", endpoints, len(steps))
	}
}

// onlyEndpoints reports whether a step declares sets, and adds or deletes endpoints,
// and nothing else.
func onlyEndpoints(b Batch) bool {
	for _, op := range b {
		switch op := op.(type) {
		case AddSet:
			continue
		case AddFrontends:
			if op.Set.Kind.hasEndpoints() {
				continue
			}
		case AddElements:
			if op.Set.Kind.hasEndpoints() {
				continue
			}
		case DeleteElements:
			if op.Set.Kind.hasEndpoints() {
				continue
			}
		}
		return false
	}
	return true
}

// A load may end between two steps, or one of the tables be deleted.
func TestRestOfAFirstLoadIsDividedToo(t *testing.T) {
	rules, first := load(100)
	begun := first.Steps(1000)[0]
	have := rules.Tables()
	for f := range have {
		have[f].Chains = map[string]ChainState{}
		for name, set := range have[f].Sets {
			set.Elements = nil
			have[f].Sets[name] = set
		}
	}
	for _, op := range begun {
		if add, isAdd := op.(AddElements); isAdd {
			set := have[add.Set.Family].Sets[add.Set.Name()]
			set.Elements = append(set.Elements, add.Elements...)
			have[add.Set.Family].Sets[add.Set.Name()] = set
		}
	}
	halfThere := rules.Tables()
	halfThere[model.IPv6] = nil
	for name, tables := range map[string]Tables{"ended after a step": have, "one table is gone": halfThere} {
		_, rest := Adopt(sampleConfig, tables, sample(100))
		if steps := rest.Steps(1000); len(steps) < 2 {
			t.Errorf("%s: %d elements take %d steps", name, rest.Counts().Added, len(steps))
		}
	}
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
	gone := Change{ServiceCIDRs: &[]netip.Prefix{}, NodeAddrs: &[]netip.Addr{}}
	for _, fe := range sample(10).Set {
		gone.Gone = append(gone.Gone, fe.Match)
	}
	if counts := rules.Plan(gone).Batch.Counts(); counts.Added != 0 || counts.Deleted == 0 || counts.Objects == 0 {
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
		t.Error("a committed plan leads to another state than a fresh start")
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

// TestNumbersOfEndpointsAreKnownInEveryStep replaces endpoints of which clients are
// remembered: their numbers must lead to an endpoint between any two steps.
func TestNumbersOfEndpointsAreKnownInEveryStep(t *testing.T) {
	rules, _ := load(100)
	moved := sample(100)
	for i := range moved.Set {
		for k, e := range moved.Set[i].Pool.Cluster {
			moved.Set[i].Pool.Cluster[k] = netip.AddrPortFrom(e.Addr(), 8081)
		}
	}
	batch := rules.Plan(moved).Batch
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
