package explain

import (
	"net/netip"
	"testing"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// TestRepliesBetweenOtherNodesBypassThisOne has endpoints on this node and on another, for
// clients that keep their address or do not. Routes alone show the reply to pass this node.
func TestRepliesBetweenOtherNodesBypassThisOne(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for _, masquerade := range []bool{false, true} {
				d := document(f, p)
				d.Node = "node-1"
				var list []simulate.Endpoint
				client, service := netip.MustParseAddr("2001:db8::7"), netip.MustParseAddrPort("[fd00::a]:80")
				if f == model.IPv4 {
					client, service = netip.MustParseAddr("198.51.100.7"), netip.MustParseAddrPort("10.96.0.10:80")
				}
				seen := client
				if masquerade {
					seen = seen.Next() // of another program's rule, which need not be the node's
				}
				nodes := map[string]string{}
				for _, e := range d.Services[0].Ports[0].Endpoints {
					nodes[e.Address] = e.Node
					list = append(list, simulate.Endpoint{
						Address: netip.AddrPortFrom(netip.MustParseAddr(e.Address), e.Port), Source: seen,
						Reply: simulate.Reply{Verdict: simulate.VerdictDelivered, From: service, To: netip.AddrPortFrom(client, 0)},
					})
				}
				w := asked(f, p, 80, simulate.Outcome{Verdict: simulate.VerdictDelivered, Probability: 1, Endpoints: list}, "shop/web:http")
				w.Packet.From, w.Packet.To, w.In, w.ClientVia = client, service, "eth0", client
				a := newAnswer(w)
				if a.Arrives != "always" {
					t.Fatalf("arrives %s", a.Arrives)
				}
				locate(a, w, d)
				bypass := 0
				for _, e := range a.Outcomes[0].Endpoints {
					if want := !masquerade && nodes[e.Address] != d.Node; e.Reply.Bypasses != want || want != (e.Reply.Verdict == answer.ReplyNotAccepted) {
						t.Errorf("%s %s, masquerade %t: %s on %q: %+v", f, p, masquerade, e.Address, nodes[e.Address], e.Reply)
					}
					if e.Reply.Bypasses {
						bypass++
					}
				}
				if (bypass > 0) == masquerade || (a.Arrives == "always") != masquerade {
					t.Errorf("%s %s, masquerade %t: %d bypass, arrives %s", f, p, masquerade, bypass, a.Arrives)
				}
			}
		}
	}
}

// TestEndpointNodeIsThatOfALivePort has an address whose former port has no node.
func TestEndpointNodeIsThatOfALivePort(t *testing.T) {
	for _, f := range model.Families {
		d := document(f, model.TCP)
		list := &d.Services[0].Ports[0].Endpoints
		live := (*list)[0]
		gone := live
		gone.Node = ""
		for _, all := range [][]nodestatus.Endpoint{{gone, live}, {live, gone}} {
			*list = all
			if n := endpointNodes(d)[live.Address]; n != live.Node || n == "" {
				t.Errorf("%s is on %q, want %q", live.Address, n, live.Node)
			}
		}
	}
}
