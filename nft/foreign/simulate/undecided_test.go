package simulate

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

var limit = UnknownExpression{Name: "limit"}

func TestUndecidedMatchWithoutEffectIsNoDoubt(t *testing.T) {
	drop, accept := verdictOf(expr.VerdictDrop, ""), verdictOf(expr.VerdictAccept, "")
	for _, tc := range []struct {
		name  string
		rules [][]any
		doubt string // which rule has it, and why
		want  string
	}{
		{"it drops, and the next one", [][]any{{limit, drop}, {limit, drop}}, "1 of forward has limit", path.VerdictNotService},
		{"a number that is not known is counted", [][]any{{
			&expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 4, Len: 4, DestRegister: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: nativeBytes(7)}, &expr.Counter{},
		}}, "", path.VerdictNotService},
		{"behind the header of UDP, it drops", [][]any{{
			&expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 20, Len: 4, DestRegister: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: nativeBytes(7)}, drop,
		}}, "1 of forward has the content of the packet is unknown", path.VerdictNotService},
		{"it accepts what is accepted anyway", [][]any{{limit, accept}}, "", path.VerdictNotService},
		{"what it accepts would be dropped", [][]any{{limit, accept}, {drop}}, "1 of forward has limit", path.VerdictDropped},
		{"both rules drop", [][]any{{limit, drop}, {drop}}, "", path.VerdictDropped},
		{"it jumps to a chain that only counts", [][]any{{limit, verdictOf(expr.VerdictJump, "count")}}, "", path.VerdictNotService},
		{"it sets a mark that no rule matches", [][]any{{limit, setMark(1)}}, "", path.VerdictNotService},
		{"the mark matters", [][]any{{limit, setMark(1)}, {isMarked(1), drop}}, "1 of forward has limit", path.VerdictNotService},
		{"only both matter", [][]any{
			{limit, setMark(1)}, {limit, setMark(2)}, {isMarked(3), drop},
		}, "2 of forward has limit", path.VerdictNotService},
		{"the rest of the rule does not match", [][]any{{limit, isMarked(7), drop}}, "", path.VerdictNotService},
		{"a rule before it drops", [][]any{{drop}, {limit, drop}}, "", path.VerdictDropped},
		{"an unknown target", [][]any{{UnknownExpression{Name: "xt target NFQUEUE"}}}, "1 of forward has xt target NFQUEUE", path.VerdictNotService},
		{"an unknown target behind it", [][]any{{limit, UnknownExpression{Name: "xt target NFQUEUE"}}}, "1 of forward has xt target NFQUEUE", path.VerdictNotService},
		{"what it loads is compared", [][]any{{
			UnknownExpression{Name: "rt"}, &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: nativeBytes(5)}, drop,
		}}, "1 of forward has rt", path.VerdictNotService},
	} {
		f := node()
		f.chain(otherTable, "forward", "filter", HookForward, 0, tc.rules...)
		f.add(Chain{otherTable, "count"}, []any{&expr.Counter{}})
		p := sample
		if strings.Contains(tc.name, "UDP") {
			p.Protocol = model.UDP
		}
		o, w := only(t, f, p)
		var doubts []string
		if tc.doubt != "" {
			doubts = []string{"table inet firewall, chain forward, may decide otherwise: rule handle " + tc.doubt}
		}
		if o.Verdict != tc.want || fmt.Sprint(w.Doubts) != fmt.Sprint(doubts) || math.Abs(o.Probability-1) > 1e-9 {
			t.Errorf("%s: %+v, doubts %q", tc.name, o, w.Doubts)
		}
	}
}

// TestUndecidedMatchThatChangesSharesIsADoubt has rules for one of two endpoints, which are picked
// anyway.
func TestUndecidedMatchThatChangesSharesIsADoubt(t *testing.T) {
	second := netip.MustParseAddrPort("10.244.1.3:8080")
	for name, list := range map[string][]any{
		"": {limit, setMark(1)}, "table inet firewall": append([]any{limit}, to(second)...),
	} {
		f := node()
		f.chain(otherTable, "nat", "nat", HookPrerouting, -100,
			list, append([]any{oneOf(4)}, to(endpoint)...), to(second))
		w := run(t, f)
		if !strings.HasPrefix(fmt.Sprint(w.Doubts), "["+name) || (name == "") != (len(w.Doubts) == 0) {
			t.Errorf("%q: doubts %q", name, w.Doubts)
		}
		if e := w.Outcomes[0].Endpoints; len(e) != 2 || math.Abs(e[0].Probability-0.75) > 1e-9 || e[0].AddrPort() != second {
			t.Errorf("%q: %+v", name, e)
		}
	}
}

// TestWalksOfUndecidedMatchesAreBounded has more of them than can be combined.
func TestWalksOfUndecidedMatchesAreBounded(t *testing.T) {
	f := node()
	for range 20 {
		f.chain(otherTable, "forward", "filter", HookForward, 0, []any{limit, setMark(1)})
	}
	w := run(t, f)
	if f.walks > 2*maxWalks || len(w.Doubts) == 0 || w.Outcomes[0].Probability != 1 {
		t.Errorf("%d walks, doubts %q, %+v", f.walks, w.Doubts, w.Outcomes)
	}
}

// TestManyEndpointsInTurnAreExplored has the rules of kube-proxy for a Service, each of which
// picks one of the endpoints that are left.
func TestManyEndpointsInTurnAreExplored(t *testing.T) {
	for _, n := range []int{1, 2, 50, 500} {
		f := node()
		var rules [][]any
		for i := range n {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), 80)
			rule := []any{dnat(at)}
			rules = append(rules, append([]any{oneOf(n - i)}, rule...))
		}
		f.chain(otherTable, "nat", "nat", HookPrerouting, -100, rules...)
		w := run(t, f)
		e := w.Outcomes[0].Endpoints
		if len(e) != n || math.Abs(e[0].Probability-1/float64(n)) > 1e-9 || math.Abs(whole(w)-1) > 1e-9 {
			t.Errorf("%d endpoints: %d found, the first with %v, sum %v", n, len(e), e[0].Probability, whole(w))
		}
		if w.Unexplored != (path.Unexplored{}) {
			t.Errorf("%d endpoints: not explored %+v", n, w.Unexplored)
		}
	}
}

func TestWalksOfPicksInTurnAreBounded(t *testing.T) {
	c, all := &choices{perPick: maxChoicesPerPick, walks: maxWalks}, 0.0
	for more := true; more; more = c.advance() {
		for n := 2 * maxWalks; n > 1 && !c.chooseFirst(1/float64(n)); n-- {
		}
		c.addResult(outcomeKey{})
		all += c.probability()
	}
	if c.mainWalks != maxWalks || !c.stopped || math.Abs(all-0.5) > 1e-9 {
		t.Errorf("%d walks with a probability of %v, stopped %t", c.mainWalks, all, c.stopped)
	}
}

// TestIndexFindsTheRulesThatMayMatch has a long chain with rules for addresses, ports, and
// neither, in any order.
func TestIndexFindsTheRulesThatMayMatch(t *testing.T) {
	drop := func(list ...any) []any { return append(list, verdictOf(expr.VerdictDrop, "")) }
	for n, want := range map[string]string{"address": path.VerdictDropped, "port": path.VerdictDropped, "neither": path.VerdictDropped, "none": path.VerdictNotService} {
		f := node()
		var rules [][]any
		for i := range 3 * minIndexed {
			other := netip.AddrFrom4([4]byte{10, 99, 0, byte(i)})
			rules = append(rules, drop(destinationIs(other)...), drop(tcpPort(uint16(i+1000))))
		}
		switch n {
		case "address":
			rules[100] = drop(destinationIs(service.Addr())...)
		case "port":
			rules[101] = drop(tcpPort(80))
		case "neither":
			rules[102] = drop(extensionWith("iprange", 1, 65, fields{32: service.Addr(), 48: service.Addr(), 64: 2}))
		}
		f.chain(otherTable, "forward", "filter", HookForward, 0, rules...)
		if o, _ := only(t, f, sample); o.Verdict != want {
			t.Errorf("%s: %s, want %s", n, o.Verdict, want)
		}
		list := newRuleList(f.rules[Chain{otherTable, "forward"}], model.IPv4)
		if next := list.next(0, client, service); n == "none" && next != len(list.rules) || n == "neither" && next != 102 {
			t.Errorf("%s: the next rule is %d of %d", n, next, len(list.rules))
		}
	}
}

// TestRulesOfOtherSourcesAreSkipped has a long chain of rules for sources: addresses, and prefixes
// with and without a mask. One of another kind of mask is compared.
func TestRulesOfOtherSourcesAreSkipped(t *testing.T) {
	sourceIs := func(data, mask []byte) []any {
		out := []any{&expr.Payload{OperationType: expr.PayloadLoad, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: uint32(len(data)), DestRegister: unix.NFT_REG_1}}
		if mask != nil {
			out = append(out, &expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask))})
		}
		return append(out, &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: data}, verdictOf(expr.VerdictDrop, ""))
	}
	a := client.As4()
	for n, tc := range []struct {
		data, mask []byte
		next       int
	}{
		{[]byte{10, 0, 0, 1}, nil, minIndexed},
		{a[:], nil, 7},
		{a[:3], nil, 7},
		{[]byte{a[0], a[1], a[2] &^ 3, 0}, []byte{255, 255, 252, 0}, 7},
		{[]byte{10, 0, 0, 0}, []byte{255, 0, 0, 0}, minIndexed},
		{[]byte{0, 0, 0, a[3]}, []byte{0, 0, 0, 255}, 7},
	} {
		rules := slices.Repeat([]Rule{{Expressions: sourceIs([]byte{10, 0, 0, 1}, nil)}}, minIndexed)
		rules[7] = Rule{Expressions: sourceIs(tc.data, tc.mask)}
		if got := newRuleList(rules, model.IPv4).next(0, client, service); got != tc.next {
			t.Errorf("%d: the next rule is %d, want %d", n, got, tc.next)
		}
	}
}

func destinationIs(a netip.Addr) []any {
	return []any{
		&expr.Payload{OperationType: expr.PayloadLoad, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4, DestRegister: unix.NFT_REG_1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: a.AsSlice()},
	}
}

func TestProgramAtAQueueMayDrop(t *testing.T) {
	for name, tc := range map[string]struct {
		behind []any
		want   string
		doubts int
	}{
		"it accepts or drops":       {nil, path.VerdictNotService, 1},
		"it is dropped in any case": {[]any{verdictOf(expr.VerdictDrop, "")}, path.VerdictDropped, 0},
	} {
		for _, queue := range []any{&expr.Queue{Num: 4}, extensionWith("NFQUEUE", 2, 6, fields{0: uint16(4)})} {
			f := node()
			f.chain(otherTable, "forward", "filter", HookForward, 0, []any{queue})
			f.chain(otherTable, "later", "filter", HookForward, 1, tc.behind)
			if o, w := only(t, f, sample); o.Verdict != tc.want || len(w.Doubts) != tc.doubts {
				t.Errorf("%s: %+v, doubts %q", name, o, w.Doubts)
			}
		}
	}
}
