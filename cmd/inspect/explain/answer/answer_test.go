package answer

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// TestVerdictComesFirst has an answer with every part: the verdict, why, and the path last.
func TestVerdictComesFirst(t *testing.T) {
	a := Answer{
		From: "10.244.1.7", To: "10.96.0.10:53", Protocol: "udp", Interface: "veth1", Service: "kube-system/kube-dns:dns", Kind: "ClusterIP",
		Outcomes: []path.Outcome{
			{Verdict: path.VerdictDelivered, Probability: 0.5, Endpoints: []path.Endpoint{
				{Address: netip.MustParseAddr("10.244.2.2"), Port: 53, Probability: 0.5, Sees: netip.MustParseAddr("10.244.1.7"), Out: "eth0", NextHop: netip.MustParseAddr("192.0.2.2"), Response: Responds},
				{Address: netip.MustParseAddr("10.244.1.3"), Port: 53, Probability: 0.5, Sees: netip.MustParseAddr("10.244.1.7"), Out: "veth3"},
			}},
			{Verdict: path.VerdictDropped, Probability: 0.5, By: path.RuleRef{Table: "inet firewall", Chain: "forward"}},
		},
		Hints: []string{"a hint"}, Doubts: []string{"a doubt"}, Faults: []string{"a fault"},
		Steps: []path.Step{{Hook: "prerouting", Chain: "nat-prerouting", Text: "a step"}},
	}
	a.Interpret(&Response{Process: "answers"}, "")
	text := a.Text()
	at := 0
	for _, want := range []string{
		"10.244.1.7 -> 10.96.0.10:53/udp, kube-system/kube-dns:dns (ClusterIP), in by veth1: does not always arrive\n", "\nResult:\n",
		", sees 10.244.1.7, out by eth0 to 192.0.2.2, answers\n", ", sees 10.244.1.7, out by veth3\n",
		"dropped by table inet firewall, chain forward", "a fault", "a doubt", "From the running kube-vmap:\n  a hint\n", "\nPath:\n  prerouting", "a step",
	} {
		i := strings.Index(text[at:], want)
		if i < 0 || at == 0 && i != 0 {
			t.Fatalf("no %q in its place in\n%s", want, text)
		}
		at += i + len(want)
	}
}

// TestJSONIsStable reads an answer with all fields, which scripts and other versions know, and prints it.
func TestJSONIsStable(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "answer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var a Answer
	var got strings.Builder
	if err := json.Unmarshal(want, &a); err != nil {
		t.Fatal(err)
	}
	if err := a.Print(&got, "json"); err != nil || got.String() != string(want) {
		t.Errorf("%v, got %s", err, &got)
	}
}

// TestProblemsOfOtherAddressesAreNoHints has conflicts about the address, and one of which it is a prefix.
func TestProblemsOfOtherAddressesAreNoHints(t *testing.T) {
	for _, f := range model.Families {
		to := netip.MustParseAddrPort(map[model.Family]string{model.IPv4: "10.96.0.1:80", model.IPv6: "[fd00::1]:80"}[f])
		for held, want := range map[string]bool{
			to.String() + "/tcp": true, netip.AddrPortFrom(to.Addr(), 9).String() + "/udp": true,
			netip.AddrPortFrom(to.Addr().Next(), 80).String() + "/tcp": false, "*:30080/tcp": false,
		} {
			p := nodestatus.Problem{Reason: model.ProblemConflict, Args: nodestatus.Args{Names: []string{held}}}
			if got := concerns(&p, to.Addr()); got != want {
				t.Errorf("%s concerns %s: %t", held, to.Addr(), got)
			}
		}
	}
}

// TestEndpointNodeIsThatOfALivePort has an address whose former port has no node.
func TestEndpointNodeIsThatOfALivePort(t *testing.T) {
	for _, f := range model.Families {
		live := nodestatus.Endpoint{Address: map[model.Family]string{model.IPv4: "10.244.1.2", model.IPv6: "fd00:10:244::2"}[f], Port: 8080, Node: "node-1"}
		d := &nodestatus.Document{Services: []nodestatus.Service{{Ports: []nodestatus.Port{{}}}}}
		list := &d.Services[0].Ports[0].Endpoints
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

// TestSlowStartIsAHint has an endpoint that has joined another one, of which the kernel's slots say nothing.
func TestSlowStartIsAHint(t *testing.T) {
	for f, ips := range map[model.Family][3]string{
		model.IPv4: {"10.96.0.1", "10.244.1.2", "10.244.1.3"}, model.IPv6: {"fd00::1", "fd00:10:244::2", "fd00:10:244::3"},
	} {
		for _, p := range model.Protocols {
			at := func(i int) string { return netip.AddrPortFrom(netip.MustParseAddr(ips[i]), 80).String() }
			port := nodestatus.Port{
				Family: f.String(), Protocol: p.String(),
				Frontends: []nodestatus.Frontend{{Kind: model.KindClusterIP.String(), Address: ips[0], Port: 80}},
				Endpoints: []nodestatus.Endpoint{{Address: ips[1], Port: 80, Slot: new(0)}, {Address: ips[2], Port: 80, Slot: new(1), SlowStart: "1/8"}},
			}
			a := Answer{To: at(0), Protocol: p.String(), Service: "default/web"}
			a.addHints(&nodestatus.Document{Ready: true, Services: []nodestatus.Service{
				{Namespace: "default", Name: "web", Ports: []nodestatus.Port{port}},
			}})
			const want = "1 of 2 endpoints has joined others, with a part of the weight for now: "
			if !slices.ContainsFunc(a.Hints, func(h string) bool { return strings.Contains(h, want+at(2)) }) {
				t.Errorf("%s over %s: hints %q, want %s", p, f, a.Hints, want+at(2))
			}
		}
	}
}
