package explain

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// families are the addresses of a test in each family.
var families = [...]struct{ client, service, endpoint, other, node string }{
	model.IPv4: {"10.244.1.7", "10.96.0.10", "10.244.1.2", "10.244.2.2", "192.0.2.1"},
	model.IPv6: {"fd00:10:244::7", "fd00:10:96::a", "fd00:10:244::2", "fd00:10:244:2::2", "2001:db8:2::1"},
}

// document has one Service with endpoints, some of which get no connections.
func document(f model.Family, p model.Protocol) *nodestatus.Document {
	a, slot := families[f], 0
	return &nodestatus.Document{
		Source: nodestatus.FromDaemon, Ready: true, NodeAddresses: []string{a.node},
		Services: []nodestatus.Service{{
			Namespace: "shop", Name: "web",
			Ports: []nodestatus.Port{{
				Name: "http", Protocol: strings.ToUpper(p.String()), Family: f.String(),
				Frontends: []nodestatus.Frontend{
					{Address: a.service, Port: 80, Kind: "LoadBalancerIP", Policy: "Cluster", Restricted: true, Sources: []string{"192.0.2.0/28"}},
					{Port: 30080, Kind: "NodePort", Policy: "Cluster"},
				},
				Endpoints: []nodestatus.Endpoint{
					{Address: a.endpoint, Port: 8080, Slot: &slot, LocalSlot: &slot, Node: "node-1"},
					{Address: a.other, Port: 8080, Node: "node-2", Reason: "OtherZones", ZoneHints: []string{"zone-b"}},
				},
			}},
			Problems: []nodestatus.Problem{{
				Object: "Service shop/web", Reason: "AddressConflict", Text: a.service + " belongs to shop/older",
				Args: nodestatus.Args{Names: []string{netip.AddrPortFrom(netip.MustParseAddr(a.service), 80).String() + "/tcp"}},
			}},
		}},
	}
}

func asked(f model.Family, p model.Protocol, port uint16, o path.Outcome, service string) simulate.Result {
	a := families[f]
	return simulate.Result{
		Packet: simulate.Packet{
			From: netip.MustParseAddr(a.client), To: netip.AddrPortFrom(netip.MustParseAddr(a.service), port), Protocol: p,
		},
		Service: service, Kind: "External", Outcomes: []path.Outcome{o},
	}
}

func hinted(t *testing.T, w simulate.Result, d *nodestatus.Document) *answer.Answer {
	t.Helper()
	a := NewAnswer(w)
	a.Interpret(&answer.Response{Document: d, Process: "answers"}, "")
	return &a
}

func TestHintsComeFromTheProcess(t *testing.T) {
	delivered := path.Outcome{Verdict: path.VerdictDelivered, Probability: 1}
	barred := path.Outcome{Verdict: path.VerdictDropped, Probability: 1, Reason: path.ReasonSourceRanges, By: path.RuleRef{Table: "ip kube-vmap", Chain: "source-check", Rule: 3}}
	refused := path.Outcome{Verdict: path.VerdictRefused, Probability: 1, How: "a TCP reset"}
	for _, p := range model.Protocols {
		for _, f := range model.Families {
			a := families[f]
			other := netip.AddrPortFrom(netip.MustParseAddr(a.other), 8080)
			for _, tc := range []struct {
				says   string
				walk   simulate.Result
				change func(*nodestatus.Document)
				want   []string
			}{
				{"an endpoint is not used", asked(f, p, 80, delivered, "shop/web:http"), nil, []string{
					"1 of 2 endpoints gets no connections from this node, because hints assign it to other zones: " + other.String(),
					"Service shop/web: AddressConflict: " + a.service + " belongs to shop/older",
				}},
				{"a client may not come", asked(f, p, 80, barred, "shop/web:http"), nil, []string{"only 192.0.2.0/28 may connect", "AddressConflict"}},
				{"a wrong port", asked(f, p, 81, refused, ""), nil, []string{
					fmt.Sprintf("%s is an address of shop/web, which has 80/%s there", a.service, p), "belongs to shop/older",
				}},
				{"a node port at a Service's address", asked(f, p, 30080, refused, ""), nil, []string{
					fmt.Sprintf("30080/%s is the node port of shop/web, and is served at %s; %s serves no node ports", p, a.node, a.service),
				}},
				{"the kernel lacks it", asked(f, p, 80, refused, ""), nil, []string{"shop/web has this address and port, but the kernel's tables do not"}},
				{"fields", asked(f, p, 80, delivered, "shop/web:http"), func(d *nodestatus.Document) {
					s, port := &d.Services[0], &d.Services[0].Ports[0]
					s.HintsField, port.AffinitySeconds = "spec.trafficDistribution: PreferSameZone", 60
					port.Endpoints = append(port.Endpoints,
						nodestatus.Endpoint{Address: "10.244.1.9", Port: 8081, Slot: new(1), Refused: 2},
						nodestatus.Endpoint{Address: "10.244.1.8", Port: 8080, Reason: nodestatus.ReasonGone, Traffic: nodestatus.Traffic{Active: 4}},
					)
				}, []string{
					"hints assign it to other zones: " + other.String() + " (spec.trafficDistribution: PreferSameZone)",
					"1 of 3 endpoints answers with a reset, 2 times within the observation: no program listens on port 8081 there",
					"(spec.ports[].targetPort)", "each client keeps its endpoint for 1m0s after its last new connection (spec.sessionAffinity: ClientIP)",
					"open connections, 4, to endpoints that get no new ones: 10.244.1.8:8080",
				}},
				{"an endpoint is avoided", asked(f, p, 80, delivered, "shop/web:http"), func(d *nodestatus.Document) {
					e := &d.Services[0].Ports[0].Endpoints[1]
					e.Reason, e.Unresponsive = nodestatus.ReasonAvoided, &nodestatus.Unresponsive{Clients: 2, Connections: 4, Probes: 2}
				}, []string{
					fmt.Sprintf("endpoint %s/%s on node node-2: no reply to 4 connections of 2 clients and to 2 probes since", other, p), "new connections avoid it",
				}},
			} {
				d := document(f, p)
				if tc.change != nil {
					tc.change(d)
				}
				got := hinted(t, tc.walk, d)
				all := strings.Join(got.Hints, "\n")
				for _, want := range tc.want {
					if !strings.Contains(all, want) {
						t.Errorf("%s, %s, %s: hints are %q, want %q", tc.says, p, f, got.Hints, want)
					}
				}
				if got.Process != "answers" {
					t.Errorf("%s: the process %s, hints are %q", tc.says, got.Process, got.Hints)
				}
			}
		}
	}
}

// TestUntranslatedConnectionIsNotOneToARemovedEndpoint has connections of the client to the address
// itself, and to an endpoint that is gone.
func TestUntranslatedConnectionIsNotOneToARemovedEndpoint(t *testing.T) {
	for _, f := range model.Families {
		w := asked(f, model.TCP, 80, path.Outcome{Verdict: path.VerdictDelivered, Probability: 1}, "shop/web:http")
		gone := netip.AddrPortFrom(w.Packet.From.Next(), 8080)
		w.Flows = []simulate.Flow{{Endpoint: w.Packet.To, Left: true}, {Endpoint: gone, Left: true}}
		got := hinted(t, w, document(f, model.TCP)).Connections
		if len(got) != 2 || !strings.Contains(got[0].Because, "not translated") || got[0].Reason != "" || got[1].Reason != nodestatus.ReasonGone {
			t.Errorf("%s: %+v", f, got)
		}
	}
}

// TestOnlyPacketsToEndpointsAreObserved has packets that are delivered, and that are dropped since
// no endpoint is on the node. The tables do not have the kind of a frontend without endpoints here.
func TestOnlyPacketsToEndpointsAreObserved(t *testing.T) {
	noneHere := path.Outcome{
		Verdict: path.VerdictDropped, Probability: 1, Reason: path.ReasonNoLocalEndpoint, By: path.RuleRef{Table: "ip kube-vmap", Chain: "x", Rule: 3},
	}
	for _, tc := range []struct {
		o           path.Outcome
		tables, doc string // the kind there
		observed    time.Duration
		want        string
	}{
		{path.Outcome{Verdict: path.VerdictDelivered, Probability: 1}, "External", "LoadBalancerIP", time.Second, ""},
		{noneHere, "External", "LoadBalancerIP", 0, "none of them is on this node (spec.externalTrafficPolicy: Local)"},
		{noneHere, "", "ClusterIP", 0, "none of them is on this node (spec.internalTrafficPolicy: Local)"},
	} {
		d := document(model.IPv6, model.UDP)
		d.Services[0].Ports[0].Frontends[0].Kind = tc.doc
		w := asked(model.IPv6, model.UDP, 80, tc.o, "shop/web:http")
		w.Kind = tc.tables
		r, observed := &answer.Response{Answers: []answer.Answer{NewAnswer(w)}, Process: "answers"}, time.Duration(-1)
		o := Options{Observe: time.Second}
		r.Document, _ = o.document(t.Context(), func(_ context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
			observed = q.Observe
			return d, nil
		}, r)
		got := &r.Answers[0]
		got.Interpret(r, "")
		if text := got.Text(); observed != tc.observed || !strings.Contains(text, tc.want) {
			t.Errorf("observed for %s, want %s; no %q in %s", observed, tc.observed, tc.want, text)
		}
	}
}

// TestProcessObservesOnce has packets to Services that the tables have, and to one that only the
// process knows, of which two documents are read.
func TestProcessObservesOnce(t *testing.T) {
	for service, want := range map[string]string{"shop/web:http": "[shop/web 1s]", "": "[/ 0s shop/web 1s]"} {
		w := asked(model.IPv4, model.TCP, 80, path.Outcome{Verdict: path.VerdictDelivered, Probability: 1}, service)
		r := &answer.Response{Answers: []answer.Answer{NewAnswer(w), NewAnswer(w)}}
		var queries []string
		o := Options{Observe: time.Second}
		d, err := o.document(t.Context(), func(_ context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
			queries = append(queries, fmt.Sprintf("%s/%s %s", q.Namespace, q.Name, q.Observe))
			return document(model.IPv4, model.TCP), nil
		}, r)
		if err != nil || len(d.Services) != 1 || fmt.Sprint(queries) != want {
			t.Errorf("%q: %v, want %s, %v", service, queries, want, err)
		}
	}
}

// TestOnlyServicesOfThePacketAreSent has an address that no Service of the tables has.
func TestOnlyServicesOfThePacketAreSent(t *testing.T) {
	w := asked(model.IPv4, model.TCP, 99, path.Outcome{Verdict: path.VerdictNotService, Probability: 1}, "")
	r := &answer.Response{Answers: []answer.Answer{NewAnswer(w)}}
	d, err := (&Options{}).document(t.Context(), func(context.Context, nodestatus.Query) (*nodestatus.Document, error) {
		d := document(model.IPv4, model.TCP)
		d.Services = append(d.Services, nodestatus.Service{Namespace: "shop", Name: "other", Ports: []nodestatus.Port{{
			Frontends: []nodestatus.Frontend{{Address: "10.96.0.99", Port: 80}},
		}}})
		return d, nil
	}, r)
	if err != nil || len(d.Services) != 1 || d.Services[0].Name != "web" {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestNoProcessIsReported(t *testing.T) {
	w := asked(model.IPv4, model.TCP, 80, path.Outcome{Verdict: path.VerdictDelivered}, "shop/web:http")
	got := NewAnswer(w)
	got.Interpret(&answer.Response{Process: client.ErrNotRunning.Error() + ". So this is what the kernel's tables hold"}, "")
	text := got.Text()
	for _, want := range []string{"no kube-vmap answers. So this is what the kernel's tables hold", "shop/web:http (External)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

func TestArrivesSumsUp(t *testing.T) {
	delivered := path.Outcome{Verdict: path.VerdictDelivered, Probability: 1}
	const delivers, drops = path.VerdictDelivered, path.VerdictDropped
	legacy := func(w *simulate.Result) { w.NotFollowed = []string{"table ip nat (legacy)"} }
	doubts := func(w *simulate.Result) {
		w.Doubts = []simulate.Doubt{{Base: simulate.Chain{Name: "forward"}, Why: "limit"}}
	}
	belongs := func(left bool) func(*simulate.Result) {
		return func(w *simulate.Result) { w.Flow, w.IfNew = &simulate.Flow{Left: left}, []path.Outcome{delivered} }
	}
	for name, tc := range map[string]struct {
		verdicts []string
		change   func(*simulate.Result)
		arrives  string
		says     string // in the text
	}{
		"all arrive":            {[]string{delivers, path.VerdictNotService}, nil, answer.Always, ""},
		"some arrive":           {[]string{delivers, drops}, nil, answer.Sometimes, ""},
		"none arrives":          {[]string{path.VerdictRefused, drops, path.VerdictUnreachable}, nil, answer.Never, ""},
		"not understood":        {[]string{delivers, path.VerdictUnknown}, nil, answer.Unknown, ""},
		"legacy rules":          {[]string{delivers}, legacy, answer.Unknown, "table ip nat (legacy)"},
		"dropped before those":  {[]string{drops}, legacy, answer.Never, "were not followed"},
		"not certain":           {[]string{delivers}, doubts, answer.Unknown, "may decide otherwise"},
		"dropped, not certain":  {[]string{drops}, doubts, answer.Unknown, "may decide otherwise"},
		"some, not certain":     {[]string{delivers, drops}, doubts, answer.Sometimes, "may decide otherwise"},
		"a connection":          {[]string{delivers}, belongs(false), answer.Always, "belongs to an open connection"},
		"its endpoint has left": {[]string{delivers}, belongs(true), answer.Never, "belongs to an open connection"},
	} {
		w := asked(model.IPv6, model.UDP, 80, path.Outcome{}, "")
		w.Outcomes = nil
		for _, v := range tc.verdicts {
			w.Outcomes = append(w.Outcomes, path.Outcome{Verdict: v})
		}
		if tc.change != nil {
			tc.change(&w)
		}
		got := hinted(t, w, nil)
		text, left := got.Text(), w.Flow != nil && w.Flow.Left
		if got.Arrives != tc.arrives || !strings.Contains(text, tc.says) || strings.Contains(text, "no new connection would go there") != left {
			t.Errorf("%s: arrives %s, want %s\n%s", name, got.Arrives, tc.arrives, text)
		}
	}
}

// TestHintsAreAboutTheAddressOfManyThatIsAsked has a port with more addresses than findings list,
// and a policy of the last one.
func TestHintsAreAboutTheAddressOfManyThatIsAsked(t *testing.T) {
	dropped := path.Outcome{Verdict: path.VerdictDropped, Probability: 1, Reason: path.ReasonNoLocalEndpoint}
	d := document(model.IPv4, model.TCP)
	port := &d.Services[0].Ports[0]
	last := port.Frontends[0]
	last.Policy, last.Verdict, last.Restricted = "Local", nodestatus.VerdictDrop, false
	port.Endpoints = port.Endpoints[:1]
	port.Endpoints[0].LocalSlot, port.Frontends = nil, nil
	for i := range 30 {
		other := last
		other.Address = fmt.Sprintf("192.0.2.%d", i)
		port.Frontends = append(port.Frontends, other)
	}
	port.Frontends = append(port.Frontends, last)
	all := strings.Join(hinted(t, asked(model.IPv4, model.TCP, 80, dropped, "shop/web:http"), d).Hints, "\n")
	if !strings.Contains(all, "is on another node") || strings.Contains(all, "192.0.2.") {
		t.Errorf("hints are %s", all)
	}
}

func TestUnexploredChoicesArePrinted(t *testing.T) {
	delivered := path.Outcome{Verdict: path.VerdictDelivered, Probability: 0.25}
	dropped := path.Outcome{Verdict: path.VerdictDropped, Probability: 0.25}
	for _, tc := range []struct {
		unseen   path.Unexplored
		outcomes []path.Outcome
		arrives  string
		text     string
	}{
		{path.Unexplored{}, []path.Outcome{delivered}, answer.Always, ""},
		{path.Unexplored{Endpoints: 744, Probability: 0.75}, []path.Outcome{delivered}, answer.Always, "75%, with up to 744 more endpoints, assumed to be like the others"},
		{path.Unexplored{Endpoints: 744, Probability: 0.75}, []path.Outcome{dropped}, answer.Never, "75%, with up to 744 more endpoints, assumed to be like the others"},
		{path.Unexplored{Probability: 0.5, OthersPick: true}, []path.Outcome{delivered, dropped}, answer.Sometimes, "50%. Rules of other programs choose, too"},
		{path.Unexplored{Probability: 0.75, OthersPick: true}, []path.Outcome{delivered}, answer.Unknown, "75%. Rules of other programs choose, too"},
		{path.Unexplored{Probability: 0.75, OthersPick: true, Endpoints: 7}, []path.Outcome{dropped}, answer.Unknown, "75%, with up to 7 more endpoints. Rules of other programs choose, too"},
	} {
		w := asked(model.IPv6, model.SCTP, 80, path.Outcome{}, "shop/web:http")
		w.Outcomes, w.Unexplored = tc.outcomes, tc.unseen
		got := hinted(t, w, nil)
		var encoded strings.Builder
		if err := got.Print(&encoded, "json"); err != nil {
			t.Fatal(err)
		}
		text := got.Text()
		printed := strings.Contains(text, "Not explored")
		if got.Arrives != tc.arrives || printed != (tc.text != "") || !strings.Contains(text, tc.text) {
			t.Errorf("%+v: arrives %s, want %s\n%s", tc.unseen, got.Arrives, tc.arrives, text)
		}
		if p := fmt.Sprintf(`"probability": %v`, tc.unseen.Probability); printed != strings.Contains(encoded.String(), `"unseen": {`) || printed && !strings.Contains(encoded.String(), p) {
			t.Errorf("%+v: %s", tc.unseen, encoded.String())
		}
	}
}

func TestEveryReasonHasASentence(t *testing.T) {
	for _, r := range []string{
		path.ReasonNoLocalEndpoint, path.ReasonNoEndpoint, path.ReasonSourceRanges, path.ReasonNoPort,
		path.ReasonNoService, path.ReasonInvalid, path.ReasonFault,
	} {
		w := asked(model.IPv4, model.TCP, 80, path.Outcome{Verdict: path.VerdictDropped, Reason: r}, "")
		if o := hinted(t, w, nil).Outcomes[0]; o.Reason != r || o.Because == "" {
			t.Errorf("%s: %+v", r, o)
		}
	}
}

// TestConnectionsNameWhyTheirEndpointLeft has connections to an endpoint that is not ready, and
// to one that no EndpointSlice names.
func TestConnectionsNameWhyTheirEndpointLeft(t *testing.T) {
	for _, f := range model.Families {
		for why, listed := range map[string]bool{
			"NotReady (status.conditions[Ready] of the pod)": true, "no EndpointSlice names the endpoint now": false,
		} {
			d, at := document(f, model.TCP), netip.MustParseAddr(families[f].endpoint).Next()
			if port := &d.Services[0].Ports[0]; listed {
				port.Endpoints = append(port.Endpoints, nodestatus.Endpoint{Address: at.String(), Port: 8080, Reason: "NotReady"})
			}
			w := asked(f, model.TCP, 80, path.Outcome{Verdict: path.VerdictDelivered, Probability: 1}, "shop/web:http")
			w.Flows = []simulate.Flow{{Endpoint: netip.AddrPortFrom(at, 8080), Left: true}}
			w.Flow, w.IfNew = &w.Flows[0], w.Outcomes
			got := hinted(t, w, d)
			if text := got.Text(); !strings.Contains(text, "no new connection would go there: "+why) || (got.Arrives == answer.Always) != listed {
				t.Errorf("%s: arrives %s, want %q\n%s", f, got.Arrives, why, text)
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
				w := asked(f, p, 80, path.Outcome{
					Verdict: path.VerdictDelivered, Probability: 1, Endpoints: []path.Endpoint{{Node: tc.local}},
				}, "shop/web:http")
				w.In = tc.in
				w.Flow = &simulate.Flow{Status: 1 << 14, Endpoint: netip.AddrPortFrom(w.Packet.To.Addr(), 8080)}
				got := hinted(t, w, d)
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

// TestRepliesBetweenOtherNodesBypassThisOne has endpoints on this node and on another, for
// clients that keep their address or do not. Routes alone show the reply to pass this node.
func TestRepliesBetweenOtherNodesBypassThisOne(t *testing.T) {
	outside := [...]netip.Addr{model.IPv4: netip.MustParseAddr("198.51.100.7"), model.IPv6: netip.MustParseAddr("2001:db8::7")}
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for _, masquerade := range []bool{false, true} {
				d := document(f, p)
				d.Node = "node-1"
				var list []path.Endpoint
				client, service := outside[f], netip.AddrPortFrom(netip.MustParseAddr(families[f].service), 80)
				seen := client
				if masquerade {
					seen = seen.Next() // of another program's rule, which need not be the node's
				}
				for _, e := range d.Services[0].Ports[0].Endpoints {
					list = append(list, path.Endpoint{
						Address: netip.MustParseAddr(e.Address), Port: e.Port, Sees: seen,
						Reply: path.Reply{Verdict: path.VerdictDelivered, From: service.String(), To: netip.AddrPortFrom(client, 0).String()},
					})
				}
				w := asked(f, p, 80, path.Outcome{Verdict: path.VerdictDelivered, Probability: 1, Endpoints: list}, "shop/web:http")
				w.Packet.From, w.In, w.ClientVia = client, "eth0", client
				a := NewAnswer(w)
				if arrives := a.Arrival(); arrives != "always" {
					t.Fatalf("arrives %s", arrives)
				}
				a.Interpret(&answer.Response{Document: d}, "")
				for _, e := range a.Outcomes[0].Endpoints {
					if want := !masquerade && e.Address == netip.MustParseAddr(families[f].other); e.Reply.Bypasses != want || want != (e.Reply.Verdict == path.VerdictNotAccepted) {
						t.Errorf("%s %s, masquerade %t: %s: %+v", f, p, masquerade, e.Address, e.Reply)
					}
				}
				if (a.Arrives == "always") != masquerade {
					t.Errorf("%s %s, masquerade %t: arrives %s", f, p, masquerade, a.Arrives)
				}
			}
		}
	}
}
