package simulate

import (
	"net/netip"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/simulate/path"
)

// established is a connection of the client to an endpoint.
func established(at netip.AddrPort) Flow {
	return Flow{
		Client: netip.AddrPortFrom(client, 4001), Requested: service, Endpoint: at, SeenSource: netip.AddrPortFrom(client, 4001),
		Status: statusSeenReply | statusConfirmed | statusDestNAT | statusSourceDone | statusDestDone,
	}
}

// stateIs matches the state of the connection.
func stateIs(state uint32, verdict expr.VerdictKind) []any {
	return []any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: unix.NFT_REG_1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: nativeBytes(state)},
		verdictOf(verdict, ""),
	}
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
		"new ones are dropped": {endpoint, func(f *fake) {
			f.chain(otherTable, "raw", "filter", HookPrerouting, -110, stateIs(stateNew, expr.VerdictDrop))
		}, false},
		"new ones are dropped at the endpoint": {endpoint, func(f *fake) {
			f.chain(otherTable, "forward", "filter", HookForward, 0, stateIs(stateNew, expr.VerdictDrop))
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
	if o.Verdict != VerdictDelivered || at.Address != endpoint || at.Source != nodeIP || !at.Reply.ReachesClient(own) {
		t.Errorf("a packet of the connection: %+v", o)
	}
	if len(r.IfNew) != 1 || r.IfNew[0].Verdict != VerdictDropped {
		t.Errorf("a new connection: %+v", r.IfNew)
	}
	f.chain(otherTable, "early", "filter", HookIngress, flowtablePriority-1, drop)
	f.bases[len(f.bases)-1].Devices = []string{eth0.Name}
	if o, _ := only(t, f, own); o.Verdict != VerdictDropped || o.By.Chain != "early" {
		t.Errorf("before the flowtable: %+v", o)
	}
}

// TestConnectionToUnexploredEndpointHasNotLeft has a connection of a large Service.
func TestConnectionToUnexploredEndpointHasNotLeft(t *testing.T) {
	r := Result{
		Flows:    []Flow{established(netip.MustParseAddrPort("10.244.9.9:8080"))},
		Outcomes: []Outcome{{Verdict: VerdictDelivered, Probability: 1, Endpoints: []Endpoint{{Address: endpoint}}}},
	}
	for unexplored, want := range map[path.Unexplored]bool{{}: true, {Endpoints: 1}: false} {
		r.Flows[0].Left, r.Unexplored = false, unexplored
		if r.setLeft(); r.Flows[0].Left != want {
			t.Errorf("not explored %+v: left %t", unexplored, r.Flows[0].Left)
		}
	}
}
