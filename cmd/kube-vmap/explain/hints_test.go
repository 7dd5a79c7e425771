package explain

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/explain"
	"kube-vmap/sync/status"
)

// families are the addresses of a test in both.
var families = [...]struct{ client, service, endpoint, other, node string }{
	model.IPv4: {"10.244.1.7", "10.96.0.10", "10.244.1.2", "10.244.2.2", "192.0.2.1"},
	model.IPv6: {"fd00:10:244::7", "fd00:10:96::a", "fd00:10:244::2", "fd00:10:244:2::2", "2001:db8:2::1"},
}

// document is of one Service, whose endpoints do not all get connections.
func document(f model.Family, p model.Protocol) *status.Document {
	a, slot := families[f], 0
	return &status.Document{
		Source: status.FromDaemon, Ready: true, NodeAddresses: []string{a.node},
		Services: []status.Service{{
			Namespace: "shop", Name: "web",
			Ports: []status.Port{{
				Name: "http", Protocol: strings.ToUpper(p.String()), Family: f.String(),
				Frontends: []status.Frontend{
					{Address: a.service, Port: 80, Kind: "LoadBalancerIP", Policy: "Cluster", Restricted: true, Sources: []string{"192.0.2.0/28"}},
					{Port: 30080, Kind: "NodePort", Policy: "Cluster"},
				},
				Endpoints: []status.Endpoint{
					{Address: a.endpoint, Port: 8080, Slot: &slot, LocalSlot: &slot, Node: "node-1"},
					{Address: a.other, Port: 8080, Node: "node-2", Reason: "OtherZones", ZoneHints: []string{"zone-b"}},
				},
			}},
			Problems: []status.Problem{{Object: "Service shop/web", Reason: "AddressConflict", Text: a.service + " belongs to shop/older"}},
		}},
	}
}

// asked is what the hints are about.
func asked(f model.Family, p model.Protocol, port uint16, o explain.Outcome, service string) explain.Walk {
	a := families[f]
	return explain.Walk{
		Packet: explain.Packet{
			From: netip.MustParseAddr(a.client), To: netip.AddrPortFrom(netip.MustParseAddr(a.service), port), Protocol: p,
		},
		Service: service, Kind: "External", Outcomes: []explain.Outcome{o},
	}
}

func TestTheProcessAddsWhatOnlyItKnows(t *testing.T) {
	delivered := explain.Outcome{Verdict: explain.Delivered, Probability: 1}
	barred := explain.Outcome{Verdict: explain.Dropped, Probability: 1, By: &explain.Place{Table: "ip kube-vmap", Chain: "source-check", Rule: 3}}
	refused := explain.Outcome{Verdict: explain.Refused, Probability: 1, How: "a TCP reset"}
	for _, p := range model.Protocols {
		for _, f := range model.Families {
			a := families[f]
			other := netip.AddrPortFrom(netip.MustParseAddr(a.other), 8080)
			for _, tc := range []struct {
				says string
				walk explain.Walk
				want []string
			}{
				{"an endpoint is not used", asked(f, p, 80, delivered, "shop/web:http"), []string{
					other.String() + " on node-2 gets no connections: its topology hints are for other zones (zone-b)",
					"Service shop/web: AddressConflict: " + a.service + " belongs to shop/older",
				}},
				{"a client may not come", asked(f, p, 80, barred, "shop/web:http"), []string{"only 192.0.2.0/28 may come", "AddressConflict"}},
				{"a wrong port", asked(f, p, 81, refused, ""), []string{
					fmt.Sprintf("%s is an address of shop/web, which has 80/%s there", a.service, p), "belongs to shop/older",
				}},
				{"a node port at a Service's address", asked(f, p, 30080, refused, ""), []string{
					fmt.Sprintf("30080/%s is the node port of shop/web, and is served at %s", p, a.node),
				}},
				{"the kernel lacks it", asked(f, p, 80, refused, ""), []string{"shop/web has this address and port, but the kernel's tables do not"}},
			} {
				got := newAnswer(tc.walk)
				got.addHints(t.Context(), func(context.Context, status.Query) (*status.Document, error) { return document(f, p), nil }, tc.walk.Packet)
				all := strings.Join(got.Hints, "\n")
				for _, want := range tc.want {
					if !strings.Contains(all, want) {
						t.Errorf("%s, %s, %s: hints are %q, want %q", tc.says, p, f, got.Hints, want)
					}
				}
				if got.Process != "answers" {
					t.Errorf("the process %s", got.Process)
				}
			}
		}
	}
}

func TestWithoutAProcessItSaysSo(t *testing.T) {
	for err, want := range map[error]string{
		status.ErrNobody:     "no kube-vmap answers here",
		errors.New("broken"): "broken",
	} {
		w := asked(model.IPv4, model.TCP, 80, explain.Outcome{Verdict: explain.Delivered}, "shop/web:http")
		got := newAnswer(w)
		got.addHints(t.Context(), func(context.Context, status.Query) (*status.Document, error) { return nil, err }, w.Packet)
		var text strings.Builder
		if printErr := got.text(&text); printErr != nil || !strings.Contains(text.String(), want) || !strings.Contains(text.String(), "shop/web:http (External)") {
			t.Errorf("%v: %v\n%s", err, printErr, text.String())
		}
	}
}

func TestArrivesSumsUp(t *testing.T) {
	for want, verdicts := range map[string][]explain.Verdict{
		Always:    {explain.Delivered, explain.NotService},
		Sometimes: {explain.Delivered, explain.Dropped},
		Never:     {explain.Refused, explain.Dropped, explain.Unreachable},
		Unknown:   {explain.Delivered, explain.Untold},
	} {
		w := asked(model.IPv6, model.UDP, 80, explain.Outcome{}, "")
		w.Outcomes = nil
		for _, v := range verdicts {
			w.Outcomes = append(w.Outcomes, explain.Outcome{Verdict: v})
		}
		if got := newAnswer(w).Arrives; got != want {
			t.Errorf("%v: %s, want %s", verdicts, got, want)
		}
	}
}
