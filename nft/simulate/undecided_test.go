package simulate

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/simulate/xt"
)

var limit = UnknownExpression{"limit"}

func TestUndecidedMatchWithoutEffectIsNoDoubt(t *testing.T) {
	drop, accept := verdictOf(expr.VerdictDrop, ""), verdictOf(expr.VerdictAccept, "")
	for _, tc := range []struct {
		name   string
		rules  [][]any
		doubts int
		want   Verdict
	}{
		{"it drops", [][]any{{limit, drop}}, 1, VerdictNotService},
		{"it accepts what is accepted anyway", [][]any{{limit, accept}}, 0, VerdictNotService},
		{"what it accepts would be dropped", [][]any{{limit, accept}, {drop}}, 1, VerdictDropped},
		{"both rules drop", [][]any{{limit, drop}, {drop}}, 0, VerdictDropped},
		{"it jumps to a chain that only counts", [][]any{{limit, verdictOf(expr.VerdictJump, "count")}}, 0, VerdictNotService},
		{"it sets a mark that no rule matches", [][]any{{limit, xt.SetMark{Value: 1, Mask: 1}}}, 0, VerdictNotService},
		{"the mark matters", [][]any{{limit, xt.SetMark{Value: 1, Mask: 1}}, {xt.Mark{Value: 1, Mask: 1}, drop}}, 1, VerdictNotService},
		{"only both matter", [][]any{
			{limit, xt.SetMark{Value: 1, Mask: 1}}, {limit, xt.SetMark{Value: 2, Mask: 2}}, {xt.Mark{Value: 3, Mask: 3}, drop},
		}, 1, VerdictNotService},
		{"the rest of the rule does not match", [][]any{{limit, xt.Mark{Value: 7, Mask: 7}, drop}}, 0, VerdictNotService},
		{"a rule before it drops", [][]any{{drop}, {limit, drop}}, 0, VerdictDropped},
		{"an unknown target", [][]any{{UnknownExpression{"xt target NFQUEUE"}}}, 1, VerdictNotService},
		{"an unknown target behind it", [][]any{{limit, UnknownExpression{"xt target NFQUEUE"}}}, 1, VerdictNotService},
		{"what it loads is compared", [][]any{{
			UnknownExpression{"rt"}, &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: nativeBytes(5)}, drop,
		}}, 1, VerdictNotService},
	} {
		f := node()
		f.chain(otherTable, "forward", "filter", HookForward, 0, tc.rules...)
		f.add(Chain{otherTable, "count"}, []any{&expr.Counter{}})
		o, w := only(t, f, sample)
		if o.Verdict != tc.want || len(w.Doubts) != tc.doubts || math.Abs(o.Probability-1) > 1e-9 {
			t.Errorf("%s: %+v, doubts %q", tc.name, o, w.Doubts)
		}
	}
}

// TestUndecidedMatchThatChangesSharesIsADoubt leads to one of two endpoints, which are picked
// anyway.
func TestUndecidedMatchThatChangesSharesIsADoubt(t *testing.T) {
	second := netip.MustParseAddrPort("10.244.1.3:8080")
	for name, list := range map[string][]any{
		"": {limit, xt.SetMark{Value: 1}}, "table inet firewall": append([]any{limit}, to(second)...),
	} {
		f := node()
		f.chain(otherTable, "nat", "nat", HookPrerouting, -100,
			list, append([]any{xt.Statistic{Probability: 0.25}}, to(endpoint)...), to(second))
		w := run(t, f)
		if !strings.HasPrefix(fmt.Sprint(w.Doubts), "["+name) || (name == "") != (len(w.Doubts) == 0) {
			t.Errorf("%q: doubts %q", name, w.Doubts)
		}
		if e := w.Outcomes[0].Endpoints; len(e) != 2 || math.Abs(e[0].Probability-0.75) > 1e-9 || e[0].Address != second {
			t.Errorf("%q: %+v", name, e)
		}
	}
}

// TestWalksOfUndecidedMatchesAreBounded has more of them than can be combined.
func TestWalksOfUndecidedMatchesAreBounded(t *testing.T) {
	f := node()
	for range 20 {
		f.chain(otherTable, "forward", "filter", HookForward, 0, []any{limit, xt.SetMark{Value: 1}})
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
			rule := []any{xt.NAT{Addrs: xt.AddrRange{From: at.Addr(), To: at.Addr()}, Ports: xt.PortRange{From: 80, To: 80}}}
			rules = append(rules, append([]any{xt.Statistic{Probability: 1 / float64(n-i)}}, rule...))
		}
		f.chain(otherTable, "nat", "nat", HookPrerouting, -100, rules...)
		w := run(t, f)
		e := w.Outcomes[0].Endpoints
		if len(e) != n || math.Abs(e[0].Probability-1/float64(n)) > 1e-9 || math.Abs(whole(w)-1) > 1e-9 {
			t.Errorf("%d endpoints: %d found, the first with %v, sum %v", n, len(e), e[0].Probability, whole(w))
		}
		if w.Unexplored != (Unexplored{}) {
			t.Errorf("%d endpoints: not explored %+v", n, w.Unexplored)
		}
	}
}

func TestWalksOfPicksInTurnAreBounded(t *testing.T) {
	c, all := &choices{}, 0.0
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
	for n, want := range map[string]Verdict{"address": VerdictDropped, "port": VerdictDropped, "neither": VerdictDropped, "none": VerdictNotService} {
		f := node()
		var rules [][]any
		for i := range 3 * minIndexed {
			other := netip.AddrFrom4([4]byte{10, 99, 0, byte(i)})
			rules = append(rules, drop(destinationIs(other)...), drop(xt.Ports{Source: xt.AnyPort, Destination: xt.PortRange{From: uint16(i + 1000), To: uint16(i + 1000)}}))
		}
		switch n {
		case "address":
			rules[100] = drop(destinationIs(service.Addr())...)
		case "port":
			rules[101] = drop(xt.Ports{Source: xt.AnyPort, Destination: xt.PortRange{From: 80, To: 80}})
		case "neither":
			rules[102] = drop(xt.IPRange{Destination: xt.AddrRange{From: service.Addr(), To: service.Addr()}})
		}
		f.chain(otherTable, "forward", "filter", HookForward, 0, rules...)
		if o, _ := only(t, f, sample); o.Verdict != want {
			t.Errorf("%s: %s, want %s", n, o.Verdict, want)
		}
		x := &Indexes{}
		list := x.of(f.rules[Chain{otherTable, "forward"}], model.IPv4)
		if again := x.of(f.rules[Chain{otherTable, "forward"}], model.IPv4); again != list || list.index == nil {
			t.Error("the index is not kept")
		}
		if next := list.next(0, service); n == "none" && next != len(list.rules) || n == "neither" && next != 102 {
			t.Errorf("%s: the next rule is %d of %d", n, next, len(list.rules))
		}
	}
}

// destinationIs returns expressions that match a destination.
func destinationIs(a netip.Addr) []any {
	return []any{
		&expr.Payload{OperationType: expr.PayloadLoad, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4, DestRegister: unix.NFT_REG_1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: a.AsSlice()},
	}
}

// TestSessionFollowsRecentClients has the rules of kube-proxy for session affinity.
func TestSessionFollowsRecentClients(t *testing.T) {
	f := node()
	f.chain(otherTable, "nat", "nat", HookPrerouting, -100,
		[]any{xt.Recent{Name: "SEP-1", Seconds: 10800}, verdictOf(expr.VerdictJump, "sep-1")},
		[]any{xt.Recent{Name: "SEP-2", Seconds: 10800}, verdictOf(expr.VerdictJump, "sep-2")},
		[]any{xt.Statistic{Probability: 0.5}, verdictOf(expr.VerdictJump, "sep-1")},
		[]any{verdictOf(expr.VerdictJump, "sep-2")})
	second := netip.MustParseAddrPort("10.244.1.3:8080")
	f.add(Chain{otherTable, "sep-1"}, append([]any{xt.Recent{Name: "SEP-1", Set: true}}, to(endpoint)...))
	f.add(Chain{otherTable, "sep-2"}, append([]any{xt.Recent{Name: "SEP-2", Set: true}}, to(second)...))
	s, err := NewSession(f.sources(), model.IPv4)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Explore(sample, eth0)
	if err != nil || len(r.Doubts) > 0 || len(r.Outcomes) != 1 || len(r.Outcomes[0].Endpoints) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, e := range r.Outcomes[0].Endpoints {
		if e.Probability != 0.5 || e.Remembered != 3*time.Hour || !e.Sticks {
			t.Errorf("%+v", e)
		}
	}
}

func TestMatchesOfIPTables(t *testing.T) {
	from6, to6 := netip.MustParseAddr("2001:db8::9"), netip.MustParseAddrPort("[fd00:10:96::10]:80")
	sample6 := Packet{From: from6, FromPort: 4000, To: to6, Protocol: model.TCP}
	anyPort := sample
	anyPort.FromPort = 0
	toNode := Packet{From: client, FromPort: 4000, To: netip.AddrPortFrom(nodeIP, 80), Protocol: model.SCTP}
	chunks := func(how uint32, types ...int) *xt.Chunks {
		c := &xt.Chunks{How: how}
		for _, n := range types {
			c.Types[n] = true
		}
		return c
	}
	port := func(n uint16) xt.PortRange { return xt.PortRange{From: n, To: n} }
	single := func(a netip.Addr) xt.MaskedAddr {
		ones := netip.MustParseAddr("255.255.255.255")
		if a.Is6() {
			ones = netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
		}
		return xt.MaskedAddr{Addr: a, Mask: ones}
	}
	const yes, no, maybe = "yes", "no", "maybe"
	for _, tc := range []struct {
		p    Packet
		e    any
		want string
	}{
		{sample, xt.Never{Name: "icmp"}, no},
		{sample, xt.NoEffect{Name: "nfacct"}, yes},
		{sample, xt.Comment{Text: "web"}, yes},
		{sample, xt.Mark{Value: 0, Mask: 1}, yes},
		{sample, xt.Mark{Value: 0, Mask: 1, Invert: true}, no},
		{sample, xt.Mark{Value: 1, Mask: 1, Connection: true}, no},
		{sample, xt.Ports{Source: xt.AnyPort, Destination: port(80)}, yes},
		{sample, xt.Ports{Source: xt.AnyPort, Destination: port(80), InvertDestination: true}, no},
		{sample, xt.Ports{Source: port(4000), Destination: xt.AnyPort}, yes},
		{sample, xt.Ports{Source: port(4000), Destination: xt.AnyPort, InvertSource: true}, no},
		{anyPort, xt.Ports{Source: port(4000), Destination: xt.AnyPort}, maybe},
		{anyPort, xt.Ports{Source: port(4000), Destination: port(81)}, no},
		{sample, xt.Ports{Source: xt.AnyPort, Destination: xt.AnyPort, FlagMask: 0x17, Flags: 2}, yes},
		{sample, xt.Ports{Source: xt.AnyPort, Destination: xt.AnyPort, FlagMask: 0x17, Flags: 2, InvertFlags: true}, no},
		{sample, xt.Ports{Source: xt.AnyPort, Destination: xt.AnyPort, Option: 2}, maybe},
		{toNode, xt.Ports{Source: xt.AnyPort, Destination: xt.AnyPort, Chunks: chunks(xt.ChunkAny, 1, 5)}, yes},
		{toNode, xt.Ports{Source: xt.AnyPort, Destination: xt.AnyPort, Chunks: chunks(xt.ChunkAll, 1, 5)}, no},
		{toNode, xt.Ports{Source: xt.AnyPort, Destination: xt.AnyPort, Chunks: chunks(xt.ChunkOnly, 5)}, no},
		{toNode, xt.Ports{Source: xt.AnyPort, Destination: xt.AnyPort, Chunks: chunks(xt.ChunkOnly, 5), InvertChunks: true}, yes},
		{sample, xt.MultiPort{Side: xt.Destination, Ports: []xt.PortRange{port(79), {From: 80, To: 90}}}, yes},
		{sample, xt.MultiPort{Side: xt.Destination, Ports: []xt.PortRange{port(79)}, Invert: true}, yes},
		{sample, xt.MultiPort{Side: xt.Source, Ports: []xt.PortRange{port(80)}}, no},
		{sample, xt.MultiPort{Side: xt.Either, Ports: []xt.PortRange{port(4000)}}, yes},
		{anyPort, xt.MultiPort{Side: xt.Either, Ports: []xt.PortRange{port(80)}}, yes},
		{anyPort, xt.MultiPort{Side: xt.Either, Ports: []xt.PortRange{port(81)}}, maybe},
		{sample, xt.AddrType{Destination: 1 << unix.RTN_LOCAL}, no},
		{toNode, xt.AddrType{Destination: 1 << unix.RTN_LOCAL}, yes},
		{toNode, xt.AddrType{Destination: 1 << unix.RTN_LOCAL, Source: 1 << unix.RTN_LOCAL, InvertSource: true}, yes},
		{sample6, xt.AddrType{Destination: 1 << unix.RTN_LOCAL}, no},
		{sample6, xt.AddrType{Destination: 1 << unix.RTN_UNICAST}, yes},
		{sample6, xt.AddrType{Destination: 1 << unix.RTN_MULTICAST, InvertDestination: true}, yes},
		{sample, xt.AddrType{Destination: 1 << unix.RTN_LOCAL, OfInterface: true}, no},
		{toNode, xt.AddrType{Destination: 1 << unix.RTN_LOCAL, OfInterface: true}, maybe},
		{sample, xt.IPRange{Source: xt.AddrRange{From: client, To: client}}, yes},
		{sample, xt.IPRange{Source: xt.AddrRange{From: client, To: client}, InvertSource: true}, no},
		{sample, xt.IPRange{Destination: xt.AddrRange{From: client, To: client}}, no},
		{sample6, xt.IPRange{Source: xt.AddrRange{From: netip.MustParseAddr("2001:db8::"), To: from6}}, yes},
		{sample, xt.Conntrack{Flags: xt.ConntrackState, State: xt.StateNew | xt.StateInvalid}, yes},
		{sample, xt.Conntrack{Flags: xt.ConntrackState, State: xt.StateDestNAT}, no},
		{sample, xt.Conntrack{Flags: xt.ConntrackState, State: xt.StateNew, Invert: xt.ConntrackState}, no},
		{sample, xt.Conntrack{Flags: xt.ConntrackStatus, Status: statusSeenReply}, no},
		{sample, xt.Conntrack{Flags: xt.ConntrackOriginalDestination, Addrs: [4]xt.MaskedAddr{1: single(service.Addr())}}, yes},
		{sample, xt.Conntrack{Flags: xt.ConntrackOriginalDestination, Addrs: [4]xt.MaskedAddr{1: single(client)}}, no},
		{sample6, xt.Conntrack{Flags: xt.ConntrackReplySource, Addrs: [4]xt.MaskedAddr{2: single(to6.Addr())}}, yes},
		{sample, xt.Conntrack{Flags: xt.ConntrackOriginalDestinationPort, Ports: [4]xt.PortRange{1: port(80)}}, yes},
		{anyPort, xt.Conntrack{Flags: xt.ConntrackOriginalSourcePort, Ports: [4]xt.PortRange{port(80)}}, maybe},
		{sample, xt.Conntrack{Flags: xt.ConntrackDirection}, yes},
		{sample, xt.Conntrack{Flags: xt.ConntrackDirection, Invert: xt.ConntrackDirection}, no},
		{sample, xt.Conntrack{Flags: xt.ConntrackProtocol, Protocol: 17}, no},
		{sample, xt.Conntrack{Flags: xt.ConntrackExpires}, maybe},
		{sample, xt.Statistic{Probability: 1}, yes},
		{sample, xt.Statistic{Probability: 1, Invert: true}, no},
		{sample, xt.Recent{Set: true}, yes},
		{sample, xt.Recent{}, maybe},
		{sample, xt.Recent{Remove: true}, maybe},
		{sample, xt.InSet{}, maybe},
		{sample, xt.Helper{}, no},
		{sample, xt.Helper{Invert: true}, yes},
		{sample, xt.ConnLabel{Bit: 3}, no},
		{sample, xt.ConnLabel{Bit: 3, Set: true}, yes},
		{sample, xt.PacketType{Type: unix.PACKET_HOST}, yes},
		{sample, xt.PacketType{Type: unix.PACKET_BROADCAST}, no},
		{sample, xt.Length{To: 65535}, yes},
		{sample, xt.Length{From: 1000, To: 65535}, maybe},
		{sample, xt.CGroup{}, no},
		{sample, xt.Socket{}, maybe},
		{toNode, xt.Socket{}, maybe},
		{sample, xt.Queue{}, maybe},
		{sample, xt.Owner{Match: 1}, no},
		{sample, xt.Owner{Match: 1, Invert: 1}, yes},
		{sample, xt.PhysDev{Match: xt.PhysDevBridged}, no},
		{sample, xt.PhysDev{Match: xt.PhysDevBridged, Invert: xt.PhysDevBridged}, yes},
		{sample, xt.PhysDev{Match: xt.PhysDevIsIn}, maybe},
		{sample, xt.RPFilter{}, yes},
		{sample, xt.RPFilter{Invert: true}, no},
	} {
		f := node()
		hook := HookForward
		if tc.p == toNode {
			hook = HookInput
		}
		f.chain(otherTable, "chain", "filter", hook, 0, []any{tc.e, verdictOf(expr.VerdictDrop, "")})
		o, w := only(t, f, tc.p)
		got := map[bool]string{true: yes, false: no}[o.Verdict == VerdictDropped]
		if len(w.Doubts) > 0 {
			got = maybe
		}
		if got != tc.want {
			t.Errorf("%s, %+v: %s, want %s (%q)", tc.p, tc.e, got, tc.want, w.Doubts)
		}
	}
}

func TestConnMarkCopiesMarks(t *testing.T) {
	for _, tc := range []struct {
		e    xt.ConnMark
		want uint32
	}{
		{xt.ConnMark{Mode: xt.ConnMarkSet, Value: 3, Mask: 0xff}, 0x1203},
		{xt.ConnMark{Mode: xt.ConnMarkSave, Mask: 0xff, PacketMask: 0xf}, 0x1206},
		{xt.ConnMark{Mode: xt.ConnMarkSave, Mask: 0xffff, PacketMask: 0xf, ShiftLeft: 4}, 0x60},
		{xt.ConnMark{Mode: xt.ConnMarkRestore, Mask: 0xff00, PacketMask: 0xffff}, 0x1200},
		{xt.ConnMark{Mode: xt.ConnMarkRestore, Mask: 0xff00, PacketMask: 0xf, ShiftRight: 8}, 0x42},
	} {
		if got := tc.e.Result(0x56, 0x1234); got != tc.want {
			t.Errorf("%+v: %#x, want %#x", tc.e, got, tc.want)
		}
	}
}

// state is a node where programs listen at some queues.
type state struct {
	NodeState
	queues []uint16
}

func (s state) Queues() ([]uint16, error) { return s.queues, nil }

func TestQueueWithoutListenerDropsOrIsBypassed(t *testing.T) {
	drop := []any{verdictOf(expr.VerdictDrop, "")}
	for _, tc := range []struct {
		name   string
		queue  xt.Queue
		queues []uint16
		behind []any
		want   Verdict
		doubts int
	}{
		{"no listener", xt.Queue{From: 4, To: 4}, []uint16{3, 5}, nil, VerdictDropped, 0},
		{"bypass", xt.Queue{From: 4, To: 4, Bypass: true}, nil, nil, VerdictNotService, 0},
		{"a program accepts or drops", xt.Queue{From: 4, To: 6}, []uint16{5}, nil, VerdictNotService, 1},
		{"it is dropped in any case", xt.Queue{From: 4, To: 6}, []uint16{5}, drop, VerdictDropped, 0},
	} {
		f := node()
		f.chain(otherTable, "forward", "filter", HookForward, 0, []any{tc.queue})
		f.chain(otherTable, "later", "filter", HookForward, 1, tc.behind)
		s := f.sources()
		s.Node = state{queues: tc.queues}
		w, err := Run(s, sample, Link{})
		if err != nil || len(w.Outcomes) != 1 || w.Outcomes[0].Verdict != tc.want || len(w.Doubts) != tc.doubts {
			t.Errorf("%s: %+v, doubts %q, %v", tc.name, w.Outcomes, w.Doubts, err)
		}
	}
}
