package simulate

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/foreign/simulate/path"
)

// pair returns a node whose client is behind eth0, and whose endpoint is behind veth.
func pair() *fake {
	f := node()
	f.links = map[netip.Addr]Link{endpoint.Addr(): veth}
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, to(endpoint))
	return f
}

// isReply matches packets in the direction of replies.
func isReply(more ...any) []any {
	return append([]any{
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: unix.NFT_REG_1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: []byte{expr.CtDirReply}},
	}, more...)
}

// TestReplyPassesThisNodeIfOneSideIsBehindIt has clients and endpoints with and without a next
// hop, and a reply that must be translated back or not.
func TestReplyPassesThisNodeIfOneSideIsBehindIt(t *testing.T) {
	router := netip.MustParseAddr("192.0.2.254")
	for _, tc := range []struct {
		name               string
		clientVia, via     bool // a next hop
		sameLink, bridged  bool
		masquerade, direct bool
		bypasses, accepted bool
	}{
		{name: "both behind the node", accepted: true},
		{name: "the client elsewhere", clientVia: true, accepted: true},
		{name: "the endpoint elsewhere", via: true, accepted: true},
		{name: "both elsewhere", clientVia: true, via: true, bypasses: true},
		{name: "both elsewhere, masqueraded", clientVia: true, via: true, masquerade: true, accepted: true},
		{name: "both elsewhere, not translated", clientVia: true, via: true, direct: true, bypasses: true, accepted: true},
		{name: "both on one link", sameLink: true, bypasses: true},
		{name: "both on one bridge with br_netfilter", sameLink: true, bridged: true, accepted: true},
		{name: "both by one bridge, but elsewhere", sameLink: true, bridged: true, via: true, bypasses: true},
	} {
		f := pair()
		f.via = map[netip.Addr]netip.Addr{}
		if tc.clientVia {
			f.via[client] = router
		}
		if tc.via {
			f.via[endpoint.Addr()] = router
		}
		if tc.sameLink {
			f.links = nil
		}
		if tc.masquerade {
			f.chain(otherTable, "post", "nat", HookPostrouting, 90, []any{&expr.Masq{}})
		}
		f.bridged = tc.bridged
		p := sample
		if tc.direct {
			p.To = endpoint
		}
		o, _ := only(t, f, p)
		if r := o.Endpoints[0].Reply; r.Bypasses != tc.bypasses || r.Verdict == path.VerdictDelivered != tc.accepted {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
}

// TestReplyEndsWhereARuleEndsIt has rules of which some are undecided, or pick.
func TestReplyEndsWhereARuleEndsIt(t *testing.T) {
	drop := verdictOf(expr.VerdictDrop, "")
	half := []any{
		&expr.Numgen{Modulus: 2, Register: unix.NFT_REG_2}, &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_2, Data: nativeBytes(0)}, drop,
	}
	for name, tc := range map[string]struct {
		rule    []any
		want    []string // of the reply at each endpoint of the result
		doubted bool
	}{
		"dropped":                       {isReply(drop), []string{path.VerdictDropped}, false},
		"a limit":                       {isReply(UnknownExpression{Name: "limit"}, drop), []string{path.VerdictDelivered}, true},
		"one of two":                    {isReply(half...), []string{path.VerdictDropped, path.VerdictDelivered}, false},
		"the mark is not the packet's":  {[]any{&expr.Meta{Key: expr.MetaKeyMARK, Register: unix.NFT_REG_2}, &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_2, Data: nativeBytes(7)}, drop}, []string{path.VerdictDelivered}, false},
		"the connection's mark remains": {isReply(&expr.Ct{Key: expr.CtKeyMARK, Register: unix.NFT_REG_2}, &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_2, Data: nativeBytes(9)}, drop), []string{path.VerdictDropped}, false},
	} {
		f := pair()
		f.chain(otherTable, "marks", "filter", HookPostrouting, -150, append(sets(7),
			&expr.Immediate{Register: unix.NFT_REG_1, Data: nativeBytes(9)},
			&expr.Ct{Key: expr.CtKeyMARK, SourceRegister: true, Register: unix.NFT_REG_1},
		))
		f.chain(otherTable, "forward", "filter", HookForward, 0, tc.rule)
		o, r := only(t, f, sample)
		var got []string
		sum := 0.0
		for _, e := range o.Endpoints {
			got = append(got, e.Reply.Verdict)
			sum += e.Probability
			if drops := e.Reply.Verdict == path.VerdictDropped; drops != (e.Reply.By.Chain == "forward" && e.Reply.By.Rule == 1) {
				t.Errorf("%s: by %+v", name, e.Reply.By)
			}
		}
		if !slices.Equal(got, tc.want) || sum < 0.999 || sum > 1.001 || (len(r.Doubts) > 0) != tc.doubted {
			t.Errorf("%s: %v with %v, want %v; doubts %q", name, got, sum, tc.want, r.Doubts)
		}
	}
}

// TestUnknownPortOfAReplyIsNoDoubt has a rule for one port, as of a tunnel, and a client
// and a masquerade whose ports are not known.
func TestUnknownPortOfAReplyIsNoDoubt(t *testing.T) {
	for _, masquerade := range []bool{false, true} {
		f := pair()
		if masquerade {
			f.chain(otherTable, "post", "nat", HookPostrouting, 90, []any{&expr.Masq{}})
		}
		f.chain(otherTable, "raw", "filter", HookPrerouting, -300, []any{
			&expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: destinationPort, Len: 2, DestRegister: unix.NFT_REG_1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: []byte{0x17, 0xc1}},
			verdictOf(expr.VerdictDrop, ""),
		})
		p := sample
		p.FromPort = 0
		o, r := only(t, f, p)
		if reply := o.Endpoints[0].Reply; len(r.Doubts) > 0 || reply.Verdict != path.VerdictDelivered || !strings.HasSuffix(reply.To, ":0") {
			t.Errorf("masquerade %t: doubts %q, %+v", masquerade, r.Doubts, reply)
		}
	}
}

// TestReplyInFaultyTableIsUnknown has an expression in a table of ours that is not understood.
func TestReplyInFaultyTableIsUnknown(t *testing.T) {
	f := pair()
	f.chain(oursTable, "filter-forward", "filter", HookForward, 0, isReply(UnknownExpression{Name: "limit"}))
	o, _ := only(t, f, sample)
	if r := o.Endpoints[0].Reply; r.Verdict != path.VerdictUnknown || !strings.Contains(r.How, "limit") || r.Verdict == path.VerdictDelivered {
		t.Errorf("%+v", r)
	}
}

// established is a connection of the client to an endpoint.
func established(at netip.AddrPort) Flow {
	return Flow{
		Client: netip.AddrPortFrom(client, 4001), Requested: service, Endpoint: at, SeenSource: netip.AddrPortFrom(client, 4001),
		Status: statusSeenReply | statusConfirmed | statusDestNAT | statusSourceDone | statusDestDone,
	}
}

// isNew matches packets that begin a connection.
func isNew(more ...any) []any {
	return append([]any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: unix.NFT_REG_1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: nativeBytes(stateNew)},
	}, more...)
}

// TestEndpointOfAConnectionLeft changes a node after a connection was established.
func TestEndpointOfAConnectionLeft(t *testing.T) {
	gone := netip.MustParseAddrPort("10.244.1.9:8080")
	for name, tc := range map[string]struct {
		at     netip.AddrPort
		change func(*fake)
		want   bool
	}{
		"nothing":           {endpoint, func(*fake) {}, false},
		"the endpoint left": {gone, func(*fake) {}, true},
		"nothing serves new ones": {gone, func(f *fake) {
			f.chain(oursTable, "reject", "filter", HookPrerouting, -110, isNew(&expr.Reject{}))
		}, true},
		"another program rejects new ones": {gone, func(f *fake) {
			f.chain(otherTable, "reject", "filter", HookPrerouting, -110, isNew(&expr.Reject{}))
		}, false},
		"new ones are dropped": {endpoint, func(f *fake) {
			f.chain(otherTable, "raw", "filter", HookPrerouting, -110, isNew(verdictOf(expr.VerdictDrop, "")))
		}, false},
		"new ones are dropped at the endpoint": {endpoint, func(f *fake) {
			f.chain(otherTable, "forward", "filter", HookForward, 0, isNew(verdictOf(expr.VerdictDrop, "")))
		}, false},
		"another source": {endpoint, func(f *fake) {
			f.chain(otherTable, "post", "nat", HookPostrouting, 90, []any{&expr.Masq{}})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := node()
			f.links = map[netip.Addr]Link{endpoint.Addr(): veth, gone.Addr(): veth}
			f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, to(endpoint))
			tc.change(f)
			f.flows = []Flow{established(tc.at)}
			anyPort := sample
			anyPort.FromPort = 0
			own := sample
			own.FromPort = 4001
			for _, p := range []Packet{anyPort, own} {
				r, err := Run(f.sources(), p, Link{})
				if err != nil {
					t.Fatal(err)
				}
				e := r.Flow
				if p == anyPort {
					e = &r.Flows[0]
				}
				if e.Left != tc.want {
					t.Errorf("%s: %t, want %t: %+v", p, e.Left, tc.want, e)
				}
			}
		})
	}
}

// TestConnectionsInAFlowtablePassNoRules has a filter that drops everything, added after a
// connection had entered a flowtable.
func TestConnectionsInAFlowtablePassNoRules(t *testing.T) {
	f := node()
	f.links = map[netip.Addr]Link{endpoint.Addr(): veth}
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, to(endpoint))
	drop := []any{verdictOf(expr.VerdictDrop, "")}
	f.chain(otherTable, "raw", "filter", HookPrerouting, -300, drop)
	f.chain(otherTable, "late", "filter", HookIngress, flowtablePriority+1, drop)
	f.bases[len(f.bases)-1].Devices = []string{eth0.Name, veth.Name}
	flow := established(endpoint)
	flow.Status |= statusOffloaded | statusSourceNAT
	flow.SeenSource = netip.AddrPortFrom(nodeIP, 5000)
	f.flows = []Flow{flow}
	own := sample
	own.FromPort = flow.Client.Port()
	o, r := only(t, f, own)
	at := o.Endpoints[0]
	if o.Verdict != path.VerdictDelivered || at.AddrPort() != endpoint || at.Sees != nodeIP || at.Reply.Verdict != path.VerdictDelivered {
		t.Errorf("a packet of the connection: %+v", o)
	}
	if len(r.IfNew) != 1 || r.IfNew[0].Verdict != path.VerdictDropped {
		t.Errorf("a new connection: %+v", r.IfNew)
	}
	f.chain(otherTable, "early", "filter", HookIngress, flowtablePriority-1, drop)
	f.bases[len(f.bases)-1].Devices = []string{eth0.Name}
	if o, _ := only(t, f, own); o.Verdict != path.VerdictDropped || o.By.Chain != "early" {
		t.Errorf("before the flowtable: %+v", o)
	}
}

// TestConnectionToUnexploredEndpointHasNotLeft has a connection of a large Service.
func TestConnectionToUnexploredEndpointHasNotLeft(t *testing.T) {
	r := Result{
		Flows:    []Flow{established(netip.MustParseAddrPort("10.244.9.9:8080"))},
		Outcomes: []path.Outcome{{Verdict: path.VerdictDelivered, Probability: 1, Endpoints: []path.Endpoint{{Address: endpoint.Addr(), Port: endpoint.Port()}}}},
	}
	for unexplored, want := range map[path.Unexplored]bool{{}: true, {Endpoints: 1}: false} {
		r.Flows[0].Left, r.Unexplored = false, unexplored
		if r.setLeft(); r.Flows[0].Left != want {
			t.Errorf("not explored %+v: left %t", unexplored, r.Flows[0].Left)
		}
	}
}
