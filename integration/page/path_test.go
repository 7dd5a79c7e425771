package page

import (
	"net/netip"
	"testing"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/kubectl-vmap/explain"
	"kube-vmap/nft/foreign/simulate/path"
)

// journey is the answer for a packet of a pod on node-1 to a Service with three endpoints:
// on its own node, on node-2, and on node-3, where another program drops it.
func journey() *explain.Report {
	clients := &answer.Answer{
		Arrives: answer.Sometimes, Outcomes: []path.Outcome{{Verdict: path.VerdictDelivered, Probability: 1}},
		Steps: []path.Step{
			{Hook: "prerouting", Table: "ip kube-vmap", Chain: "nat-prerouting", Text: "services has 10.96.0.10 . tcp . 80 (shop/web:http): goto cluster-3"},
			{Hook: "prerouting", Table: "ip kube-vmap", Chain: "cluster-3", Text: "from a pod: no masquerade; goto lb-3"},
			{Hook: "prerouting", Table: "ip kube-vmap", Chain: "lb-3", Text: "picks one of 3 at random"},
			{Hook: "prerouting", Table: "ip kube-vmap", Chain: "ep-1", Text: "to 10.244.2.5:8080", Endpoint: "10.244.2.5:8080", Similar: 2},
			{Hook: "forward", Table: "ip filter", Chain: "FLANNEL-FWD", Text: "accepted by rule 7"},
			{Hook: "forward", Table: "ip kube-vmap", Chain: "nat-postrouting", Text: "the reply is translated back to 10.96.0.10:80", Back: true},
		},
	}
	there := func(node, chain, text string) *explain.NodeAnswer {
		return &explain.NodeAnswer{Node: node, Answer: &answer.Answer{Steps: []path.Step{{Hook: "forward", Table: "ip filter", Chain: chain, Text: text}}}}
	}
	at := func(address string, back path.Reply) path.Endpoint {
		return path.Endpoint{Address: netip.MustParseAddr(address), Port: 8080, Probability: 1. / 3, Sees: netip.MustParseAddr("10.244.1.7"), Reply: back}
	}
	delivered := path.Reply{Verdict: path.VerdictDelivered, From: "10.96.0.10:80", To: "10.244.1.7"}
	return &explain.Report{
		Schema: 1, Arrives: answer.Sometimes,
		From: explain.Party{Kind: "pod", Namespace: "shop", Name: "cart-7f9", Node: "node-1"}, To: explain.Party{Kind: "service", Namespace: "shop", Name: "web"},
		Ways: []explain.Way{{
			Family: "IPv4", Protocol: "TCP", From: "10.244.1.7", To: "10.96.0.10:80", Service: "shop/web:http", Kind: "ClusterIP", Arrives: answer.Sometimes,
			Verdict: "arrives at 2 of 3 endpoints; on node-3 it is dropped",
			Causes:  []explain.Cause{{Object: "NetworkPolicy shop/web", Field: "spec.ingress", Text: "a rule of another program on node-3 drops it"}},
			Client:  explain.NodeAnswer{Node: "node-1", Answer: clients},
			Endpoints: []explain.Endpoint{
				{Endpoint: at("10.244.1.9", delivered), Pod: "shop/web-1", On: "node-1", Arrives: answer.Always},
				{Endpoint: at("10.244.2.5", delivered), Pod: "shop/web-2", On: "node-2", Arrives: answer.Always, There: there("node-2", "FLANNEL-FWD", "accepted by rule 7")},
				{Endpoint: at("10.244.3.8", path.Reply{}), Pod: "shop/web-3", On: "node-3", Arrives: answer.Never, Why: "dropped by chain policy of table ip filter", There: there("node-3", "policy", "drop: rule 12")},
			},
		}},
		Differences: []explain.Difference{{Node: "node-2", Text: "it does not know endpoint 10.244.3.8:8080", Lag: "requests to the API server fail since 21:04:11"}},
		Notes:       []string{"deployment shop/cart has 3 pods: cart-7f9 was chosen"},
	}
}

func TestPathOfAPacketIsFollowed(t *testing.T) {
	t.Parallel()
	f := newFleet(3, shopkeeping)
	f.way = journey()
	w := openAt(t, f.serve(t), "#/path", 1480, 1000)
	w.await(`document.activeElement.id === "from"`)
	w.press("pod/shop/cart-7f9\t")
	w.press("svc/shop/web\r")
	w.await(`document.querySelectorAll(".way .stop-endpoint").length === 3`)
	w.says(".way h2", "Arrives at 2 of 3 endpoints; on node-3 it is dropped")
	w.says(".causes .field", "spec.ingress")
	if got := get[string](w, "decodeURIComponent(location.hash)"); got != "#/path?from=pod/shop/cart-7f9&to=svc/shop/web" {
		t.Errorf("the address is %s", got)
	}
	if bad := get[[]string](w, `[...document.querySelectorAll(".stop-endpoint.is-bad b")].map(e => e.textContent)`); len(bad) != 1 || bad[0] != "pod/shop/web-3" {
		t.Errorf("it does not arrive at %q", bad)
	}
	if n := get[int](w, `document.querySelectorAll("[data-back]").length`); n != 4 {
		t.Errorf("%d arrows lead back", n)
	}
}
