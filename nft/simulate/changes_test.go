package simulate

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
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

// TestChangesOfEstablishedConnections changes a node after a connection was established.
func TestChangesOfEstablishedConnections(t *testing.T) {
	gone := netip.MustParseAddrPort("10.244.1.9:8080")
	for name, tc := range map[string]struct {
		at     netip.AddrPort
		change func(*fake)
		want   []ChangeKind
	}{
		"nothing":           {endpoint, func(*fake) {}, nil},
		"the endpoint left": {gone, func(*fake) {}, []ChangeKind{ChangeEndpoint}},
		"new ones are dropped": {endpoint, func(f *fake) {
			f.chain(otherTable, "raw", "filter", HookPrerouting, -110, stateIs(stateNew, expr.VerdictDrop))
		}, []ChangeKind{ChangeRefused}},
		"new ones are dropped at the endpoint": {endpoint, func(f *fake) {
			f.chain(otherTable, "forward", "filter", HookForward, 0, stateIs(stateNew, expr.VerdictDrop))
		}, []ChangeKind{ChangeRefused}},
		"established ones are dropped": {endpoint, func(f *fake) {
			f.chain(otherTable, "forward", "filter", HookForward, 0, stateIs(stateEstablished, expr.VerdictDrop))
		}, []ChangeKind{ChangeStopped}},
		"all are dropped": {endpoint, func(f *fake) {
			f.chain(otherTable, "forward", "filter", HookForward, 0, []any{verdictOf(expr.VerdictDrop, "")})
		}, []ChangeKind{ChangeStopped, ChangeRefused}},
		"another source": {endpoint, func(f *fake) {
			f.chain(otherTable, "post", "nat", HookPostrouting, 90, []any{&expr.Masq{}})
		}, []ChangeKind{ChangeSource}},
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
				var kinds []ChangeKind
				for _, c := range e.Changes {
					kinds = append(kinds, c.Kind)
				}
				if !slices.Equal(kinds, tc.want) {
					t.Errorf("%s: %v, want %v: %+v", p, kinds, tc.want, e.Changes)
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
	if c := r.Flow.Changes; len(c) != 1 || c[0].Kind != ChangeRefused {
		t.Errorf("changes %+v, want that a new connection would be refused", c)
	}
	f.chain(otherTable, "early", "filter", HookIngress, flowtablePriority-1, drop)
	f.bases[len(f.bases)-1].Devices = []string{eth0.Name}
	if o, _ := only(t, f, own); o.Verdict != VerdictDropped || o.By.Chain != "early" {
		t.Errorf("before the flowtable: %+v", o)
	}
}

// TestChangesOfManyConnectionsAreBounded has connections to as many endpoints, each with
// several ports.
func TestChangesOfManyConnectionsAreBounded(t *testing.T) {
	const more = 10
	f := node()
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100, to(endpoint))
	for n := range maxFlowKinds + more {
		for port := range uint16(3) {
			flow := established(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(n >> 8), byte(n)}), 8080))
			flow.Client = netip.AddrPortFrom(client, 4000+port)
			f.flows = append(f.flows, flow)
		}
	}
	p := sample
	p.FromPort = 0
	r, err := Run(f.sources(), p, Link{})
	if err != nil || r.FlowsUnexplored != 3*more || f.walks > maxFlowKinds+10 {
		t.Errorf("%d connections are not explored, with %d walks, %v", r.FlowsUnexplored, f.walks, err)
	}
}

// TestConnectionToUnexploredEndpointHasNotLeft has a connection of a large Service.
func TestConnectionToUnexploredEndpointHasNotLeft(t *testing.T) {
	f := Established{Flow: established(netip.MustParseAddrPort("10.244.9.9:8080"))}
	fresh := []Outcome{{Verdict: VerdictDelivered, Probability: 1, Endpoints: []Endpoint{{Address: endpoint}}}}
	now := Result{Packet: Packet{From: client, To: service, Protocol: model.TCP}}
	for complete, want := range map[bool]int{true: 1, false: 0} {
		if got := f.changes(now, fresh, complete); len(got) != want {
			t.Errorf("all is explored: %t: %+v", complete, got)
		}
	}
}
