package simulate

import (
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/foreign/simulate/path"
)

// draws returns the beginning of a rule: numgen random mod n < 1.
func draws(n uint32, rest ...any) []any {
	return append([]any{
		&expr.Numgen{Register: unix.NFT_REG_1, Modulus: n, Type: unix.NFT_NG_RANDOM},
		&expr.Cmp{Op: expr.CmpOpLt, Register: unix.NFT_REG_1, Data: nativeBytes(1)},
	}, rest...)
}

func run(t *testing.T, f *fake) Result {
	t.Helper()
	w, err := Run(f.sources(), sample, Link{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// whole returns the probability of all outcomes, and of what was not explored.
func whole(w Result) float64 {
	p := w.Unexplored.Probability
	for _, o := range w.Outcomes {
		p += o.Probability
	}
	return p
}

func TestPicksWithoutEffectAreNotExplored(t *testing.T) {
	f := node()
	f.chain(otherTable, "forward", "filter", HookForward, 0,
		[]any{draws(100)[0], UnknownExpression{Name: "tunnel"}, draws(100)[1], UnknownExpression{Name: "limit"}, UnknownExpression{Name: "xt match comment"}, &expr.Log{}},
		draws(100, &expr.Log{}), draws(100, &expr.Counter{}, &expr.Log{}), draws(1000, &expr.Meta{Key: expr.MetaKeyNFTRACE, SourceRegister: true, Register: unix.NFT_REG_1}))
	w := run(t, f)
	if f.walks != 1 || w.Unexplored != (path.Unexplored{}) || len(w.Outcomes) != 1 || w.Outcomes[0].Probability != 1 || len(w.Doubts) > 0 {
		t.Errorf("%d walks, not explored %+v, doubts %q, %+v", f.walks, w.Unexplored, w.Doubts, w.Outcomes)
	}
}

func TestPicksBeforeUnknownExpressionsAreNotExplored(t *testing.T) {
	f := node()
	drops := []any{draws(100)[0], UnknownExpression{Name: "tunnel"}, draws(100)[1], verdictOf(expr.VerdictDrop, "")}
	f.chain(otherTable, "forward", "filter", HookForward, 0, drops, drops, drops)
	w := run(t, f)
	// One walk if no rule matches, and one for each rule that might.
	if f.walks != 4 || len(w.Doubts) != 1 || !strings.HasSuffix(w.Doubts[0].String(), "rule handle 1 of forward has tunnel") || w.Outcomes[0].Verdict != path.VerdictNotService {
		t.Errorf("%d walks, doubts %q, %+v", f.walks, w.Doubts, w.Outcomes)
	}
}

// TestRuleThatFillsAMapHasEffect has a rule that matches what the rule before it added.
func TestRuleThatFillsAMapHasEffect(t *testing.T) {
	f := node()
	f.shape["filled"] = &Set{KeyType: uint32(typeMark), KeyLen: 4, DataType: uint32(typeMark), IsMap: true}
	seven := func(register uint32) any { return &expr.Immediate{Register: register, Data: nativeBytes(7)} }
	f.chain(otherTable, "forward", "filter", HookForward, 0,
		[]any{seven(unix.NFT_REG_1), seven(unix.NFT_REG_2), &expr.Dynset{SetName: "filled", SrcRegKey: unix.NFT_REG_1, SrcRegData: unix.NFT_REG_2}},
		[]any{seven(unix.NFT_REG_1), &expr.Lookup{SetName: "filled", SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_2, IsDestRegSet: true}, verdictOf(expr.VerdictDrop, "")})
	if w := run(t, f); w.Outcomes[0].Verdict != path.VerdictDropped {
		t.Errorf("%+v", w.Outcomes)
	}
}

func TestWalksOfOneRunAreBounded(t *testing.T) {
	f := node()
	drops := func() []any { return draws(100, verdictOf(expr.VerdictDrop, "")) }
	f.chain(otherTable, "forward", "filter", HookForward, 0, drops(), drops(), drops(), drops())
	w := run(t, f)
	if f.walks > maxWalks || f.walks < 100 {
		t.Errorf("%d walks, want no more than %d", f.walks, maxWalks)
	}
	if !w.Unexplored.OthersPick || w.Unexplored.Endpoints != 0 || w.Unexplored.Probability <= 0 || math.Abs(whole(w)-1) > 1e-9 {
		t.Errorf("not explored %+v, sum %v", w.Unexplored, whole(w))
	}
}

// TestWalksOfNestedPicksAreBounded has picks that differ from walk to walk.
func TestWalksOfNestedPicksAreBounded(t *testing.T) {
	c, walks, all := &choices{perPick: maxChoicesPerPick, walks: maxWalks}, 0, 0.0
	for more := true; more; more = c.advance() {
		for n := c.choose(300, true); n > 0 && len(c.made) < 9; n /= 2 {
			c.choose(n+1, false)
		}
		walks++
		all += c.probability()
	}
	if walks > maxWalks || all <= 0 || all > 1 {
		t.Errorf("%d walks with a probability of %v", walks, all)
	}
}

func TestEndpointsAreExploredBeforeLaterPicks(t *testing.T) {
	f := node()
	f.add(Chain{oursTable, "ep"}, to(endpoint))
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, f.picks(slices.Repeat([]string{"ep"}, 2000)...))
	w := run(t, f)
	if want := (path.Unexplored{Endpoints: 976, Probability: w.Unexplored.Probability}); w.Unexplored != want || math.Abs(w.Unexplored.Probability-0.488) > 1e-9 {
		t.Errorf("a large Service: not explored %+v", w.Unexplored)
	}
	f.walks = 0
	f.chain(otherTable, "forward", "filter", HookForward, 0, draws(100, verdictOf(expr.VerdictDrop, "")))
	if w = run(t, f); f.walks != maxWalks || w.Unexplored.Endpoints != 976 || !w.Unexplored.OthersPick || math.Abs(whole(w)-1) > 1e-9 {
		t.Errorf("with a foreign rule: %d walks, not explored %+v, sum %v", f.walks, w.Unexplored, whole(w))
	}
}

func TestRunEndsWhenInterrupted(t *testing.T) {
	f := node()
	f.chain(otherTable, "forward", "filter", HookForward, 0, draws(100, verdictOf(expr.VerdictDrop, "")))
	f.stopAfter = 3
	if _, err := Run(f.sources(), sample, Link{}); !errors.Is(err, errInterrupted) || f.walks != 3 {
		t.Errorf("%v after %d walks, want %v after 3", err, f.walks, errInterrupted)
	}
}

func TestStepsAreMergedByGroup(t *testing.T) {
	f := node()
	f.chain(oursTable, "filter-forward", "filter", HookForward, 0, draws(3, verdictOf(expr.VerdictDrop, "")))
	w := run(t, f)
	// "Picks one of 3" is on all walks; one is dropped, and two continue.
	if len(w.Steps) != 2 || w.Steps[0].Endpoint != "" || w.Steps[1].Text != "dropped" || w.Steps[1].Similar != 0 {
		t.Errorf("%+v", w.Steps)
	}
	f = node()
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, draws(3, to(endpoint)...), []any{verdictOf(expr.VerdictDrop, "")})
	w = run(t, f)
	if len(w.Steps) != 3 || w.Steps[1].Endpoint != endpoint.String() || w.Steps[1].Similar != 0 && w.Steps[1].Similar != 2 {
		t.Errorf("%+v", w.Steps)
	}
}

// TestIngressChainsSeeTheirDevicesOnly has a chain that drops what comes in by its devices.
func TestIngressChainsSeeTheirDevicesOnly(t *testing.T) {
	for _, tc := range []struct {
		devices []string
		from    Packet
		in      Link
		want    string
	}{
		{[]string{"eth1"}, sample, eth0, path.VerdictNotService},
		{[]string{"eth1", "eth0"}, sample, eth0, path.VerdictDropped},
		{[]string{"eth1", "eth0"}, sample, Link{Index: 9, Name: "eth00"}, path.VerdictNotService},
		{[]string{"eth*"}, sample, eth0, path.VerdictDropped},
		{[]string{"veth*"}, sample, eth0, path.VerdictNotService},
		{nil, sample, eth0, path.VerdictNotService},
		// A packet of the node to itself comes in by the interface that it left by.
		{[]string{"eth0"}, Packet{From: nodeIP, To: netip.AddrPortFrom(nodeIP, 80), Protocol: sample.Protocol}, Link{}, path.VerdictDropped},
		{[]string{"eth0"}, Packet{From: nodeIP, To: service, Protocol: sample.Protocol}, Link{}, path.VerdictNotService},
	} {
		f := node()
		f.chain(Table{"netdev", "guard"}, "ingress", "filter", HookIngress, 0, []any{verdictOf(expr.VerdictDrop, "")})
		f.bases[len(f.bases)-1].Devices = tc.devices
		w, err := Run(f.sources(), tc.from, tc.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Outcomes[0].Verdict; got != tc.want {
			t.Errorf("%s by %q, ingress of %q: %s, want %s", tc.from, tc.in.Name, tc.devices, got, tc.want)
		}
	}
}

// TestForeignLookupsNameSetAndKey has rules such as "ip saddr @blocked drop".
func TestForeignLookupsNameSetAndKey(t *testing.T) {
	source := &expr.Payload{OperationType: expr.PayloadLoad, DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
	drop := verdictOf(expr.VerdictDrop, "")
	for _, tc := range []struct {
		name  string
		rule  []any
		want  string
		unset bool // the set is empty
	}{
		{"in a set", []any{source, &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: "blocked"}, drop}, "set blocked has 192.0.2.9: dropped", false},
		{"not in a set", []any{source, &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: "blocked", Invert: true}, drop}, "set blocked does not have 192.0.2.9: dropped", true},
		{"in an anonymous set", []any{source, &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: "__set0"}, drop}, "the rule's own set has 192.0.2.9: dropped", false},
		{"in a map", []any{source, &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: "fates", IsDestRegSet: true}}, "map fates has 192.0.2.9: dropped", false},
		{"refused", []any{source, &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: "blocked"}, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}, "set blocked has 192.0.2.9: rejected with a TCP reset", false},
		{"without a condition", []any{drop}, "dropped", false},
	} {
		f := node()
		for name, of := range map[string]Set{"blocked": {}, "__set0": {Anonymous: true}, "fates": {IsMap: true}} {
			of.KeyType, of.KeyLen = uint32(typeIPv4), 4
			f.shape[name] = &of
			if !tc.unset {
				f.sets[name] = map[string]Element{string(client.AsSlice()): {}}
			}
		}
		f.sets["fates"] = map[string]Element{string(client.AsSlice()): {Verdict: drop}}
		f.chain(otherTable, "forward", "filter", HookForward, 0, tc.rule)
		o, w := only(t, f, sample)
		if last := w.Steps[len(w.Steps)-1].Text; o.Arrives() || last != tc.want {
			t.Errorf("%s: %s, %q, want %q", tc.name, o.Verdict, last, tc.want)
		}
	}
}

// TestSimilarCountsEndpointsNotElements has a table as Maglev fills it.
func TestSimilarCountsEndpointsNotElements(t *testing.T) {
	f := node()
	for n, chain := range []string{"ep-0", "ep-1", "ep-2"} {
		f.add(Chain{oursTable, chain}, to(netip.AddrPortFrom(endpoint.Addr(), uint16(8080+n))))
	}
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100,
		f.picks("ep-0", "ep-1", "ep-0", "ep-2", "ep-1", "ep-0", "ep-2"))
	w := run(t, f)
	last := w.Steps[len(w.Steps)-1]
	if len(w.Outcomes) != 1 || len(w.Outcomes[0].Endpoints) != 3 || last.Endpoint != endpoint.String() || last.Similar != 2 {
		t.Errorf("%d others, want 2: %+v of %+v", last.Similar, last, w.Outcomes)
	}
}
