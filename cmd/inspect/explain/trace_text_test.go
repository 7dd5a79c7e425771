package explain

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/trace"
)

// at returns a visit of table "t" in a hook.
func at(hook, chain string, own bool, steps ...trace.Step) trace.Visit {
	return trace.Visit{
		Chain: trace.Chain{
			Chain: dump.Chain{
				Chain: simulate.Chain{Table: simulate.Table{Family: "inet", Name: "t"}, Name: chain}, Hook: simulate.Hook(hook),
			},
			Own: own,
		},
		In: "eth0",
		Packet: simulate.Packet{
			From: netip.MustParseAddr("10.0.0.1"), FromPort: 1, To: netip.MustParseAddrPort("[fd00::2]:2"), Protocol: unix.IPPROTO_UDP,
		},
		Steps: steps,
	}
}

// rule returns a step of a rule of chain "c".
func rule(code expr.VerdictKind, r trace.Rule) trace.Step {
	return trace.Step{Chain: "c", Kind: trace.KindRule, Rule: r, Verdict: expr.Verdict{Kind: code}}
}

func policy(code expr.VerdictKind) trace.Step {
	return trace.Step{Chain: "c", Kind: trace.KindPolicy, Verdict: expr.Verdict{Kind: code}}
}

func TestEveryEndingHasANextStep(t *testing.T) {
	const drop, accept, stolen, queue = 0, 1, 2, 7<<16 | 3
	begin, end := at("prerouting", "begin-prerouting", true), at("prerouting", "end-prerouting", true)
	passed := func(hook string) trace.Visit { return at(hook, "end-"+hook, true) }
	sent := passed("postrouting")
	sent.Out = "eth1"
	onBridge := end
	onBridge.Bridge = true
	ours := at("input", "filter-input", false, trace.Step{Chain: "reject-chain", Kind: trace.KindRule, Rule: trace.Rule{Text: "reject", Rejects: true}})
	ours.Chain.Table.Name = "kube-vmap"
	for _, tc := range []struct {
		walk trace.Path
		want []string
	}{
		{
			trace.Path{Visits: []trace.Visit{begin, at("forward", "base", false, rule(drop, trace.Rule{Handle: 9, Text: "drop", Comment: "no"}))}},
			[]string{`DROPPED by table inet t, chain c (from base), rule 9, comment "no"`, "nft -a list chain inet t c"},
		},
		{
			trace.Path{Visits: []trace.Visit{begin, at("forward", "c", false, policy(drop))}},
			[]string{"DROPPED by the policy of table inet t, chain c (forward)", ": no rule matched, policy drop\n", "nft -a list chain inet t c"},
		},
		{trace.Path{Visits: []trace.Visit{begin, ours}}, []string{"REJECTED", "no endpoints that are ready"}},
		{trace.Path{Visits: []trace.Visit{begin, at("forward", "c", false, rule(queue, trace.Rule{Text: "queue to 7"}))}}, []string{"HANDED to a program", "queue to 7\n"}},
		{trace.Path{Visits: []trace.Visit{begin, at("forward", "c", false, rule(stolen, trace.Rule{Text: "(fwd)"}))}}, []string{"TAKEN", "(fwd)  -> stolen\n"}},
		{trace.Path{Visits: []trace.Visit{begin, end, passed("forward"), sent}}, []string{"SENT by eth1 as 10.0.0.1:1 -> [fd00::2]:2/udp"}},
		{trace.Path{Visits: []trace.Visit{begin, end, passed("input")}}, []string{"DELIVERED", "ss -ltunSp"}},
		{trace.Path{Visits: []trace.Visit{begin, end, at("forward", "begin-forward", true)}}, []string{"LOST in hook forward: it reached its start", "iptables-legacy"}},
		{trace.Path{Visits: []trace.Visit{begin, end, at("forward", "c", false, policy(accept))}}, []string{"LOST in hook forward: it reached chain c of table inet t, priority 0,"}},
		{trace.Path{Visits: []trace.Visit{begin, end}}, []string{"LOST after hook prerouting", "ip route get fd00::2 from 10.0.0.1 iif eth0"}},
		{trace.Path{Refusal: "no route on this node", Visits: []trace.Visit{begin, end}}, []string{"LOST after hook prerouting", "it was rejected: no route on this node\n"}},
		{trace.Path{Visits: []trace.Visit{begin, onBridge}}, []string{"NOT SEEN AGAIN after hook prerouting", "not certain: routing does not reject it\n", "ip neigh show dev eth0;"}},
		{trace.Path{Refusal: "no route on this node", Visits: []trace.Visit{begin, onBridge}}, []string{"NOT SEEN AGAIN", "routing would reject it (no route on this node), unless the bridge forwards it\n"}},
		{trace.Path{Visits: []trace.Visit{passed("output")}}, []string{"LOST after hook output", "ip route get fd00::2"}},
		{trace.Path{Visits: []trace.Visit{begin, end, passed("forward")}}, []string{"LOST after hook forward", "next hop"}},
		{trace.Path{Lost: true, Visits: []trace.Visit{begin}}, []string{"not known", "messages of the kernel were lost"}},
	} {
		got := traceText(1, &tc.walk)
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing in\n%s", want, got)
			}
		}
	}
}

func TestConntrackStateIsPrinted(t *testing.T) {
	for state, want := range map[string]string{
		"": ", in by eth0\n", "new": "opens a connection\n", "established": "of an open connection",
		"invalid": "it will not be translated", "untracked": "to connection tracking untracked",
	} {
		w := trace.Path{State: state, Visits: []trace.Visit{at("prerouting", "begin-prerouting", true)}}
		if got := traceText(3, &w); !strings.HasPrefix(got, "packet 3  10.0.0.1:1 -> [fd00::2]:2/udp, in by eth0") || !strings.Contains(got, want) {
			t.Errorf("%q: %s", state, got)
		}
	}
}

func TestDeletedRuleIsNotInvented(t *testing.T) {
	gone := rule(0, trace.Rule{Handle: 12})
	gone.Rule.Gone = true
	w := trace.Path{Visits: []trace.Visit{at("forward", "c", false, gone)}}
	if got := traceText(1, &w); !strings.Contains(got, "(rule 12, which has been replaced since)") {
		t.Error(got)
	}
}
