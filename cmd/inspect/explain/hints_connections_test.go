package explain

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// TestConnectionsNameWhyTheirEndpointLeft has connections to an endpoint that is not ready, and
// to one that no EndpointSlice names.
func TestConnectionsNameWhyTheirEndpointLeft(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			d := document(f, p)
			port := &d.Services[0].Ports[0]
			left := map[string]string{"10.244.1.21": "it is not ready (status.conditions[Ready] of the pod)", "10.244.1.22": "no EndpointSlice names the endpoint any more"}
			if f == model.IPv6 {
				left = map[string]string{"fd00::21": left["10.244.1.21"], "fd00::22": left["10.244.1.22"]}
			}
			for address, why := range left {
				if !strings.HasPrefix(why, "no ") {
					port.Endpoints = append(port.Endpoints, nodestatus.Endpoint{Address: address, Port: 8080, Reason: "NotReady"})
				}
				w := asked(f, p, 80, simulate.Outcome{Verdict: simulate.VerdictDelivered, Probability: 1}, "shop/web:http")
				w.Flows = []simulate.Established{{
					Flow: simulate.Flow{Endpoint: netip.AddrPortFrom(netip.MustParseAddr(address), 8080)},
					Left: true,
				}}
				w.Flow, w.IfNew = &w.Flows[0], w.Outcomes
				got := newAnswer(w)
				addHints(t.Context(), got, func(context.Context, nodestatus.Query) (*nodestatus.Document, error) { return d, nil }, w.Packet, time.Second)
				if text := got.Text(); !strings.Contains(text, "no new connection would go there: "+why) {
					t.Errorf("%s %s, %s: want %q\n%s", f, p, address, why, text)
				}
				if listed := !strings.HasPrefix(why, "no "); (got.Arrives == answer.Always) != listed {
					t.Errorf("%s %s, %s: arrives %s", f, p, address, got.Arrives)
				}
			}
		}
	}
}

// TestFastPathIsExplained has packets that the node forwards to an endpoint, and a connection
// that is on the fast path already.
func TestFastPathIsExplained(t *testing.T) {
	const says = "the fast path is on: after 20 packets of a connection, the next ones pass no rules of this node"
	on := &nodestatus.FastPath{On: true, AfterPackets: 20}
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for name, tc := range map[string]struct {
				path  *nodestatus.FastPath
				in    string
				local bool
				want  bool
			}{
				"on":                     {on, "eth0", false, p != model.SCTP},
				"off":                    {&nodestatus.FastPath{Reason: "another program has a flowtable"}, "eth0", false, false},
				"without the flag":       {nil, "eth0", false, false},
				"from this node":         {on, "", false, false},
				"to a program of a node": {on, "eth0", true, false},
			} {
				d := document(f, p)
				d.Health = &nodestatus.Health{FastPath: tc.path}
				w := asked(f, p, 80, simulate.Outcome{
					Verdict: simulate.VerdictDelivered, Probability: 1, Endpoints: []simulate.Endpoint{{Local: tc.local}},
				}, "shop/web:http")
				w.In = tc.in
				w.Flow = &simulate.Established{Flow: simulate.Flow{Status: 1 << 14, Endpoint: netip.AddrPortFrom(w.Packet.To.Addr(), 8080)}}
				got := newAnswer(w)
				addHints(t.Context(), got, func(context.Context, nodestatus.Query) (*nodestatus.Document, error) { return d, nil }, w.Packet, 0)
				if has := strings.Contains(strings.Join(got.Hints, "\n"), says); has != tc.want {
					t.Errorf("%s %s, %s: hints %q", f, p, name, got.Hints)
				}
				if text := got.Text(); !got.Connection.FastPath || !strings.Contains(text, "; on the fast path: its packets pass no rules, except fragments and those that end it\n") {
					t.Errorf("%s %s, %s: the connection is not on the fast path:\n%s", f, p, name, text)
				}
			}
		}
	}
}
