package answer

import (
	"net/netip"
	"strings"
	"testing"

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
