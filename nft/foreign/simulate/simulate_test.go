package simulate

import (
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

var endpoint = netip.MustParseAddrPort("10.244.1.2:8080")

func TestOrderBaseChainsIsThatOfTheKernel(t *testing.T) {
	list := []BaseChain{
		{Chain: Chain{Name: "filter early"}, Hook: HookPrerouting, Type: "filter", Priority: -150},
		{Chain: Chain{Name: "nat, late"}, Hook: HookPrerouting, Type: "nat", Priority: -90}, // which nat's own hook runs at -100
		{Chain: Chain{Name: "filter at -95"}, Hook: HookPrerouting, Type: "filter", Priority: -95},
		{Chain: Chain{Name: "nat, early"}, Hook: HookPrerouting, Type: "nat", Priority: -300},
		{Chain: Chain{Name: "filter at -95, later"}, Hook: HookPrerouting, Type: "filter", Priority: -95},
		{Chain: Chain{Name: "nat of sources"}, Type: "nat", Hook: HookPostrouting, Priority: -5},
		{Chain: Chain{Name: "filter at 50"}, Type: "filter", Hook: HookPostrouting, Priority: 50},
	}
	var got []string
	for _, h := range []Hook{HookPrerouting, HookPostrouting} {
		for _, b := range slices.Concat(orderBaseChains(list)[h]...) {
			got = append(got, b.Chain.Name)
		}
	}
	want := []string{
		"filter early", "nat, early", "nat, late", "filter at -95, later", "filter at -95",
		"filter at 50", "nat of sources",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTranslationToSameDestinationIsNone matches the status after nat.
func TestTranslationToSameDestinationIsNone(t *testing.T) {
	for target, want := range map[netip.AddrPort]string{service: path.VerdictDropped, endpoint: path.VerdictDelivered} {
		f := node()
		f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, to(target))
		f.chain(otherTable, "behind", "filter", HookPrerouting, -99, []any{
			&expr.Ct{Key: expr.CtKeySTATUS, Register: unix.NFT_REG_1},
			&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: 4, Mask: nativeBytes(statusDestNAT), Xor: nativeBytes(0)},
			&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: nativeBytes(0)},
			verdictOf(expr.VerdictDrop, ""),
		})
		if o, _ := only(t, f, sample); o.Verdict != want {
			t.Errorf("to %s: %s, want %s", target, o.Verdict, want)
		}
	}
}

func TestConntrackStateIsKnownFromItsPriority(t *testing.T) {
	dropsNew := isNew(verdictOf(expr.VerdictDrop, ""))
	for priority, want := range map[int32]string{-300: path.VerdictNotService, -150: path.VerdictDropped} {
		f := node()
		f.chain(otherTable, "raw", "filter", HookPrerouting, priority, dropsNew)
		if o, _ := only(t, f, sample); o.Verdict != want {
			t.Errorf("at %d: %s, want %s", priority, o.Verdict, want)
		}
	}
	f := node()
	f.chain(otherTable, "raw", "filter", HookPrerouting, -300, []any{&expr.Notrack{}})
	f.chain(otherTable, "drop", "filter", HookPrerouting, 0, dropsNew)
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, to(endpoint))
	if o, _ := only(t, f, sample); o.Verdict != path.VerdictNotService {
		t.Errorf("untracked: %s", o.Verdict)
	}
}

func TestJumpGotoAndReturn(t *testing.T) {
	f := node()
	f.chain(otherTable, "forward", "filter", HookForward, 0,
		[]any{verdictOf(expr.VerdictJump, "back")}, []any{verdictOf(expr.VerdictJump, "away")}, []any{verdictOf(expr.VerdictDrop, "")})
	f.add(Chain{otherTable, "back"}, []any{verdictOf(expr.VerdictReturn, "")}, []any{verdictOf(expr.VerdictDrop, "")})
	f.add(Chain{otherTable, "away"}, []any{verdictOf(expr.VerdictGoto, "end")}, []any{verdictOf(expr.VerdictDrop, "")})
	f.add(Chain{otherTable, "end"}, []any{&expr.Counter{}})
	o, _ := only(t, f, sample)
	// At the end of a chain reached by goto, the packet returns to where "away" was jumped to.
	if o.Verdict != path.VerdictDropped || o.By.Chain != "forward" || o.By.Rule != 3 || o.By.Text != "drop" {
		t.Errorf("%+v, by %+v", o, o.By)
	}
}

func TestEveryPickIsExploredWithItsProbability(t *testing.T) {
	f := node()
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, f.picks("ep-0", "ep-1", "ep-1"))
	f.add(Chain{oursTable, "ep-0"}, to(endpoint))
	f.add(Chain{oursTable, "ep-1"}, []any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
	w, err := Run(f.sources(), sample, Link{})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Outcomes) != 2 || w.Outcomes[0].Verdict != path.VerdictRefused || w.Outcomes[0].How != "a TCP reset" ||
		math.Abs(w.Outcomes[0].Probability-2./3) > 1e-9 || math.Abs(w.Outcomes[1].Probability-1./3) > 1e-9 {
		t.Errorf("%+v", w.Outcomes)
	}
	if f.asked > 20 {
		t.Errorf("the sources were asked %d times", f.asked)
	}
}

func TestUnknownExpressionInOurTableIsReported(t *testing.T) {
	f := node()
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, []any{UnknownExpression{Name: "osf"}, verdictOf(expr.VerdictAccept, "")})
	if o, _ := only(t, f, sample); o.Verdict != path.VerdictUnknown || !strings.Contains(o.How, "chain nat-prerouting, rule handle 1: cannot predict: osf") {
		t.Errorf("%s, %s", o.Verdict, o.How)
	}
}

func TestWalkPassesTheHooksOfThePacket(t *testing.T) {
	for _, tc := range []struct {
		name     string
		from, to netip.Addr
		hooks    []Hook
	}{
		{"from elsewhere to elsewhere", client, service.Addr(), []Hook{HookPrerouting, HookForward, HookPostrouting, HookEgress}},
		{"from elsewhere to the node", client, nodeIP, []Hook{HookPrerouting, HookInput}},
		{"from the node to elsewhere", nodeIP, service.Addr(), []Hook{HookOutput, HookPostrouting, HookEgress}},
		{"from the node to itself", nodeIP, nodeIP, []Hook{HookOutput, HookPostrouting, HookEgress, HookPrerouting, HookInput}},
	} {
		p := Packet{From: tc.from, To: netip.AddrPortFrom(tc.to, 80), Protocol: model.UDP}
		var passed []Hook
		for _, h := range []Hook{HookPrerouting, HookInput, HookForward, HookOutput, HookPostrouting, HookEgress} {
			f := node()
			f.chain(otherTable, "drop", "filter", h, 0, []any{verdictOf(expr.VerdictDrop, "")})
			f.bases[len(f.bases)-1].Devices = []string{"eth0"} // of HookEgress
			if o, _ := only(t, f, p); o.Verdict == path.VerdictDropped {
				passed = append(passed, h)
			}
		}
		want := slices.Sorted(slices.Values(tc.hooks))
		if slices.Sort(passed); !slices.Equal(passed, want) {
			t.Errorf("%s: passes %v, want %v", tc.name, passed, want)
		}
	}
	o, _ := only(t, node(), Packet{From: client, To: netip.AddrPortFrom(nowhere, 80), Protocol: model.UDP})
	if o.Verdict != path.VerdictUnreachable || o.Arrives() {
		t.Errorf("without a route: %s", o.Verdict)
	}
}

func TestKnownFlowPassesNoNATChains(t *testing.T) {
	f := node()
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, to(endpoint))
	old := netip.MustParseAddrPort("10.244.1.99:8080")
	f.flows = []Flow{{
		Client: netip.AddrPortFrom(client, 4000), Requested: service, Endpoint: old, SeenSource: netip.AddrPortFrom(nodeIP, 999),
		Status: statusDestNAT | statusSourceNAT | statusSeenReply,
	}}
	f.chain(oursTable, "nat-postrouting", "nat", HookPostrouting, 100)
	o, w := only(t, f, sample)
	if w.Flow == nil || o.Verdict != path.VerdictDelivered || o.Endpoints[0].AddrPort() != old || o.Endpoints[0].Sees != nodeIP || !o.Masquerade {
		t.Errorf("%+v", o)
	}
	if len(w.IfNew) != 1 || w.IfNew[0].Endpoints[0].AddrPort() != endpoint {
		t.Errorf("otherwise %+v", w.IfNew)
	}
	f.flows[0].Reopens = true
	if o, w = only(t, f, sample); w.Flow != nil || len(w.Flows) != 1 || o.Endpoints[0].AddrPort() != endpoint {
		t.Errorf("closed: %+v, %+v", w.Flow, o)
	}
}

// TestLabelMasqueradesIfTheMarkWasOverwritten has another program's rule between the hooks,
// as the VPC CNI has.
func TestLabelMasqueradesIfTheMarkWasOverwritten(t *testing.T) {
	label := make([]byte, len(Labels{}))
	label[15] = 1
	requests := slices.Concat(sets(0x4000), []any{
		&expr.Immediate{Register: unix.NFT_REG_1, Data: label},
		&expr.Ct{Key: expr.CtKeyLABELS, SourceRegister: true, Register: unix.NFT_REG_1},
	}, to(endpoint))
	masquerades := func(load any, mask []byte) []any {
		zero := make([]byte, len(mask))
		return []any{
			load,
			&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: uint32(len(mask)), Mask: mask, Xor: zero},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: unix.NFT_REG_1, Data: zero},
			&expr.Verdict{Kind: expr.VerdictGoto, Chain: "source-port"},
		}
	}
	for _, overwritten := range []bool{false, true} {
		f := node()
		f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, requests)
		f.chain(oursTable, "nat-postrouting", "nat", HookPostrouting, 100,
			masquerades(&expr.Meta{Key: expr.MetaKeyMARK, Register: unix.NFT_REG_1}, nativeBytes(0x4000)),
			masquerades(&expr.Ct{Key: expr.CtKeyLABELS, Register: unix.NFT_REG_1}, label))
		f.add(Chain{oursTable, "source-port"}, []any{&expr.Masq{}})
		if overwritten {
			f.chain(otherTable, "restore", "filter", HookPrerouting, -90, sets(0x80))
		}
		if o, _ := only(t, f, sample); !o.Masquerade || o.Endpoints[0].Sees != nodeIP {
			t.Errorf("overwritten: %t, %+v", overwritten, o)
		}
	}
}

// TestEndpointHasTheInterfaceByWhichPacketsLeave has an endpoint behind another node.
func TestEndpointHasTheInterfaceByWhichPacketsLeave(t *testing.T) {
	f, hop := node(), netip.MustParseAddr("192.0.2.9")
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, to(endpoint))
	f.links, f.via = map[netip.Addr]Link{endpoint.Addr(): veth}, map[netip.Addr]netip.Addr{endpoint.Addr(): hop}
	r := run(t, f)
	if e := r.Outcomes[0].Endpoints[0]; e.AddrPort() != endpoint || e.Out != veth.Name || e.NextHop != hop {
		t.Errorf("got %+v", e)
	}
}
