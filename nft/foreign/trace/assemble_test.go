package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/simulate"
)

var now = time.Unix(1_000_000, 0)

// resolved returns a recorded event with its chain and rule.
func resolved(t *testing.T, message []byte) resolvedEvent {
	t.Helper()
	e, err := decodeEvent(message)
	if err != nil {
		t.Fatal(err)
	}
	out := resolvedEvent{event: e, chain: Chain{Chain: dump.Chain{Chain: e.at}}}
	out.chain.Own = strings.HasPrefix(e.at.Table.Name, TableName)
	for _, hook := range hooks {
		if strings.HasSuffix(e.Chain, string(hook)) {
			out.chain.Hook = hook
		}
	}
	switch {
	case e.Rule.Handle == 0:
	case e.Chain == "begin-prerouting":
		out.Rule.Comment = commentBegin
	case e.Chain == "state-prerouting":
		out.Rule.Comment = commentState + "new"
	}
	return out
}

func TestRecordedEventsMakeOnePathEach(t *testing.T) {
	packets := map[string]string{
		"ipv4": "10.244.1.4:%d -> 10.96.0.10:80/%s", "ipv6": "[fd00:10:244:1::4]:%d -> [fd00:10:96::a]:80/%s",
	}
	for name, messages := range recorded(t) {
		var a assembler
		var over []*Path
		for _, m := range messages {
			if len(over) > 0 {
				t.Fatalf("%s: complete before its last event", name)
			}
			over = a.add(resolved(t, m), now)
		}
		if len(over) != 1 || len(a.open) != 0 {
			t.Fatalf("%s: %d paths, %d open", name, len(over), len(a.open))
		}
		var seen []simulate.Hook
		for _, p := range over[0].Visits {
			if p.Chain.Hook != "" && !slices.Contains(seen, p.Chain.Hook) {
				seen = append(seen, p.Chain.Hook)
			}
		}
		want := EndingDropped
		if strings.Contains(name, "policy") {
			want = EndingPolicyDrop
		}
		ending, p, _ := over[0].End()
		if ending != want || p.Chain.Table.String() != "inet firewall" || over[0].State != "new" || !slices.Equal(seen, []simulate.Hook{"prerouting", "forward"}) {
			t.Errorf("%s: %d in %+v; state %q, hooks %q", name, ending, p, over[0].State, seen)
		}
		first, parts := resolved(t, messages[0]), strings.Split(name, "-")
		family, protocol := parts[len(parts)-2], parts[len(parts)-1]
		if got := first.packet.String(); got != fmt.Sprintf(packets[family], first.packet.FromPort, protocol) || first.event.in == 0 || first.event.out != 0 {
			t.Errorf("%s: begins with %s, %+v", name, got, first)
		}
	}
}

func step(id uint32, hook simulate.Hook, name string, own bool) resolvedEvent {
	at := simulate.Chain{Table: simulate.Table{Family: "inet", Name: "t"}, Name: name}
	return resolvedEvent{
		event: event{
			id: id, at: at, Step: Step{Chain: name, Kind: KindPolicy, Verdict: expr.Verdict{Kind: expr.VerdictAccept}},
			packet: &simulate.Packet{From: netip.MustParseAddr("10.0.0.1"), FromPort: 1, To: netip.MustParseAddrPort("10.0.0.2:2")},
		},
		chain: Chain{dump.Chain{Chain: at, Hook: hook}, own},
	}
}

// begin returns the event of the rule that marks a packet.
func begin(id uint32) resolvedEvent {
	e := step(id, "prerouting", "begin-prerouting", true)
	e.Kind, e.Rule, e.Verdict.Kind = KindRule, Rule{Handle: 5, Comment: commentBegin}, expr.VerdictContinue
	return e
}

func reply(id uint32, hook simulate.Hook) resolvedEvent {
	e := step(id, hook, "state-"+string(hook), true)
	e.Kind, e.Rule, e.Verdict.Kind = KindRule, Rule{Handle: 5, Comment: commentReply}, expr.VerdictContinue
	return e
}

// dropped returns the event of a rule of another program that drops the packet.
func dropped(id uint32) resolvedEvent {
	e := step(id, "forward", "c", false)
	e.Kind, e.Rule.Handle, e.Verdict.Kind = KindRule, 3, expr.VerdictDrop
	return e
}

func end(id uint32, hook simulate.Hook) resolvedEvent {
	return step(id, hook, endPrefix+string(hook), true)
}

func TestEndingFollowsFromTheLastHook(t *testing.T) {
	outBy := func(e resolvedEvent, link string) resolvedEvent { e.out.name = link; return e }
	inBy := func(e resolvedEvent, link string) resolvedEvent { e.in.name = link; return e }
	fromBridge := func(e resolvedEvent) resolvedEvent { e.in = link{"br0", true}; return e }
	ofBridge := func(e resolvedEvent) resolvedEvent { e.chain.Table.Family = "bridge"; return e }
	elsewhere := func(e resolvedEvent) resolvedEvent { e.packet.To = netip.MustParseAddrPort("10.0.0.3:2"); return e }
	for _, tc := range []struct {
		name   string
		events []resolvedEvent
		want   Ending
		hook   simulate.Hook
	}{
		{"to no chain after begin-prerouting", []resolvedEvent{begin(1)}, EndingLostInHook, "prerouting"},
		{"to the end of prerouting", []resolvedEvent{begin(1), end(1, "prerouting")}, EndingLostAfterHook, "prerouting"},
		{"into input", []resolvedEvent{begin(1), end(1, "prerouting"), step(1, "input", "c", false)}, EndingLostInHook, "input"},
		{"through input", []resolvedEvent{begin(1), end(1, "prerouting"), end(1, "input")}, EndingDelivered, "input"},
		{"into forward", []resolvedEvent{begin(1), end(1, "prerouting"), step(1, "forward", "begin-forward", true)}, EndingLostInHook, "forward"},
		{"through forward", []resolvedEvent{begin(1), end(1, "prerouting"), end(1, "forward")}, EndingLostAfterHook, "forward"},
		{
			"through postrouting",
			[]resolvedEvent{begin(1), end(1, "prerouting"), end(1, "forward"), outBy(end(1, "postrouting"), "eth0")},
			EndingSent, "postrouting",
		},
		{
			"out by the loopback, not seen again",
			[]resolvedEvent{begin(1), outBy(end(1, "postrouting"), "lo")},
			EndingLostAfterHook, "postrouting",
		},
		{
			"out by the loopback, in again with another ID, and lost there",
			[]resolvedEvent{begin(1), end(1, "prerouting"), outBy(end(1, "postrouting"), "lo"), inBy(step(2, "prerouting", "c", false), "lo")},
			EndingLostInHook, "prerouting",
		},
		{
			"out by the loopback, in again, and delivered",
			[]resolvedEvent{begin(1), outBy(end(1, "postrouting"), "lo"), inBy(end(2, "prerouting"), "lo"), inBy(end(2, "input"), "lo")},
			EndingDelivered, "input",
		},
		{
			"a reply, out by the loopback, recognized there again, and delivered",
			[]resolvedEvent{
				reply(1, "output"), outBy(end(1, "postrouting"), "lo"), inBy(step(2, "prerouting", "begin-prerouting", true), "lo"),
				inBy(reply(2, "prerouting"), "lo"), inBy(end(2, "prerouting"), "lo"), inBy(end(2, "input"), "lo"),
			},
			EndingDelivered, "input",
		},
		{
			"to the end of prerouting, in by a bridge",
			[]resolvedEvent{begin(1), fromBridge(end(1, "prerouting"))},
			EndingNotSeenAgain, "prerouting",
		},
		{
			"on from a bridge with another ID, past another tracer's chain and chains of the bridge",
			[]resolvedEvent{
				begin(1), fromBridge(end(1, "prerouting")), fromBridge(step(1, "prerouting", "c", false)),
				ofBridge(step(1, "input", "c", false)), fromBridge(step(2, "input", "c", false)), fromBridge(end(2, "input")),
			},
			EndingDelivered, "input",
		},
		{
			"copied by a bridge, and forwarded by it",
			[]resolvedEvent{
				begin(1), fromBridge(end(1, "prerouting")), fromBridge(end(2, "forward")), outBy(end(2, "postrouting"), "br0"),
				fromBridge(end(3, "forward")),
			},
			EndingSent, "postrouting",
		},
		{
			"not on from a bridge, where a packet to elsewhere came to the next hook",
			[]resolvedEvent{begin(1), fromBridge(end(1, "prerouting")), elsewhere(step(2, "input", "c", false))},
			EndingNotSeenAgain, "prerouting",
		},
		{
			"through postrouting, and out of an interface's own hook",
			[]resolvedEvent{begin(1), outBy(end(1, "postrouting"), "eth0"), step(1, "egress", "c", false)},
			EndingSent, "postrouting",
		},
	} {
		var a assembler
		for _, e := range tc.events {
			if over := a.add(e, now); len(over) > 0 {
				t.Errorf("%s: complete too early", tc.name)
			}
		}
		if over := a.expire(now.Add(arrivedTimeout - 1)); len(over) > 0 {
			t.Errorf("%s: complete too early", tc.name)
		}
		over := a.expire(now.Add(idleTimeout))
		if tc.want == EndingNotSeenAgain {
			if len(over) > 0 {
				t.Errorf("%s: complete while it may wait for a neighbour", tc.name)
			}
			over = a.expire(now.Add(neighbourTimeout))
		}
		if len(over) != 1 {
			t.Fatalf("%s: %d paths", tc.name, len(over))
		}
		ending, p, _ := over[0].End()
		if ending != tc.want || p.Chain.Hook != tc.hook {
			t.Errorf("%s: %d in %s, want %d in %s", tc.name, ending, p.Chain.Hook, tc.want, tc.hook)
		}
	}
}

func TestForeignTracesAreDropped(t *testing.T) {
	var a assembler
	over := slices.Concat(a.add(step(7, "prerouting", "c", false), now), a.add(dropped(7), now), a.add(end(8, "input"), now))
	if over = slices.Concat(over, a.expire(now.Add(time.Hour)), a.flush()); len(over) > 0 {
		t.Errorf("paths %+v", over)
	}
	if _, open := a.nextDeadline(); open {
		t.Error("something is still open")
	}
}

func TestReusedIDBeginsAnotherPath(t *testing.T) {
	var a assembler
	a.add(begin(1), now)
	a.add(end(1, "prerouting"), now)
	if over := a.add(begin(1), now); len(over) != 1 || len(over[0].Visits) != 2 {
		t.Errorf("paths %+v", over)
	}
	if over := a.flush(); len(over) != 1 || len(over[0].Visits) != 1 {
		t.Errorf("paths %+v", over)
	}
}

// TestReusedIDContinuesTheNextPacket has two packets that look the same, and come in again by the
// loopback, or continue by a bridge, with the same ID.
func TestReusedIDContinuesTheNextPacket(t *testing.T) {
	for name, hooks := range map[string][3]simulate.Hook{
		"lo": {"postrouting", "prerouting", "input"}, "br0": {"prerouting", "forward", "postrouting"},
	} {
		var a assembler
		for _, id := range []uint32{1, 2} {
			first, second, third := end(id, hooks[0]), end(9, hooks[1]), end(9, hooks[2])
			first.in, first.out.name, second.in.name, third.in.name = link{name, name == "br0"}, name, name, name
			for _, e := range []resolvedEvent{begin(id), first, second, third} {
				a.add(e, now)
			}
		}
		if len(a.open) != 1 || len(a.open[0].Visits) != 4 {
			t.Errorf("%s: paths %+v", name, a.open)
		}
	}
}

func TestPathsAreInTheOrderOfTheirPackets(t *testing.T) {
	var a assembler
	a.add(begin(1), now)
	a.add(begin(2), now)
	if over := a.add(dropped(2), now); len(over) != 0 {
		t.Errorf("the second is complete before the first: %+v", over)
	}
	over := a.add(begin(1), now) // completes the first one
	if len(over) != 2 || len(over[0].Visits) != 1 || len(over[1].Visits) != 2 {
		t.Errorf("paths %+v", over)
	}
}

func TestLostMessagesMakeTheEndingUnknown(t *testing.T) {
	var a assembler
	a.add(begin(1), now)
	a.markLost()
	over := a.flush()
	if len(over) != 1 || !over[0].Lost {
		t.Fatalf("paths %+v", over)
	}
	if ending, _, _ := over[0].End(); ending != EndingUnknown {
		t.Errorf("ended as %d", ending)
	}
}

func TestOpenPathsAreBounded(t *testing.T) {
	var a assembler
	var over []*Path
	for id := range uint32(3 * maxOpenPaths) {
		over = append(over, a.add(begin(id), now)...)
	}
	if len(a.open) != maxOpenPaths || len(over) != 2*maxOpenPaths {
		t.Errorf("%d open, %d complete", len(a.open), len(over))
	}
}
