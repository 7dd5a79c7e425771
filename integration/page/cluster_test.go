package page

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/kubectl-vmap/explain"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/nft/foreign/simulate/path"
)

// clusterMap opens the map of a cluster, and waits until rates are known.
func clusterMap(t *testing.T, f *fleet, height int64) *window {
	t.Helper()
	t.Parallel()
	w := openAt(t, f.serve(t), "", 1360, height)
	w.await(`document.querySelectorAll(".rows .row").length > 3`)
	return w
}

func TestServiceShowsWhereConnectionsGo(t *testing.T) {
	f := newFleet(4, shopkeeping)
	f.at["node-4"].Services = nil
	for n, rate := range map[string]uint64{"node-1": 200, "node-2": 40, "node-3": 5} {
		f.rates[n]["shop/web"] = rate
	}
	w := clusterMap(t, f, 1300)
	w.press("/")
	w.press("shop/web\r")
	w.await(`document.querySelector(".flows")`)
	w.await(`[...document.querySelectorAll(".flows .from text")].some(e => e.textContent.startsWith("80.0 new/s"))`)
	w.await(`document.body.textContent.includes("Not known on node-4.")`)
}

// views of the cluster's page, with what shows that they are complete.
var views = map[string]string{
	"":                    `[...document.querySelectorAll(".rows .num")].some(n => n.textContent !== "–") || document.querySelector(".rows .strip")?.row !== undefined`,
	"#/service/shop/web":  `document.querySelector(".flows")`,
	"#/service/shop/cart": `document.querySelectorAll(".frontends tbody tr").length > 0`,
	"#/node/node-2":       `document.querySelectorAll(".rows .row").length > 1`,
	"#/path?from=pod/shop/cart-7f9&to=svc/shop/web": `document.querySelectorAll(".way .stop-endpoint").length === 3`,
}

// all returns a cluster with everything that a page can show.
func all(n int) *fleet {
	f := newFleet(n, shopkeeping)
	f.way = journey()
	f.silent["node-3"] = "node-3: no answer in 10s"
	f.nodes = append(f.nodes, nodes.Node{Name: "node-x", Missing: true, Why: "no pod of kube-vmap runs there"})
	return f
}

// TestClusterPageIsReadableAndNamedInBothThemes also checks that it fits a narrow screen.
func TestClusterPageIsReadableAndNamedInBothThemes(t *testing.T) {
	t.Parallel()
	for _, count := range []int{4, 40} {
		server := all(count).serve(t)
		for at, complete := range views {
			w := openAt(t, server, at, 1480, 1200)
			w.await(complete)
			for _, bad := range get[[]string](w, unnamed) {
				t.Errorf("%d nodes, %s: %s", count, at, bad)
			}
			for _, s := range []string{"light", "dark"} {
				w.prefer("prefers-color-scheme", s)
				for _, bad := range get[[]string](w, contrasts) {
					t.Errorf("%d nodes, %s, %s: %s", count, at, s, bad)
				}
			}
			w.resize(400, 800)
			w.await(`document.documentElement.scrollWidth <= 400`)
		}
	}
}

func TestMapIsReachableByKeyboard(t *testing.T) {
	w := clusterMap(t, newFleet(40, shopkeeping), 1000)
	w.await(`document.querySelectorAll(".tile").length === 40`)
	get[bool](w, `(document.querySelector(".tile").focus(), true)`)
	w.press(kb.ArrowRight, kb.ArrowRight)
	if got := get[string](w, `document.activeElement.dataset.name`); got != "node-3" {
		t.Errorf("two to the right of node-1 is %q", got)
	}
	const described = `document.querySelector(".nodes .count").textContent.startsWith("node-3: ")`
	w.await(described)
	get[string](w, `document.querySelector(".nodes .count").textContent = "until the next update"`)
	w.await(described)
	w.press(kb.End)
	if got := get[string](w, `document.activeElement.ariaLabel`); !strings.HasPrefix(got, "node-40: ") {
		t.Errorf("screen readers get %q", got)
	}
	w.press(kb.Enter)
	w.await(`document.querySelector("h1").textContent === "Node node-40"`)
	w.press(kb.Escape)
	w.await(`document.querySelector(".overview")`)
	w.press("j", "\r")
	w.await(`document.querySelector("article.service .flows") && document.activeElement.tagName === "H1"`)
	w.press("f")
	w.await(`document.querySelector("article.path") && document.getElementById("to").value.startsWith("svc/")`)
	w.ignoreFailedLoads() // no pod of that name
	w.press("pod/x/y\r")
	w.await(`document.querySelector(".is-error")?.textContent === 'pod "pod/x/y" is not found'`)
}

func TestSilentNodesAreShownAsSuch(t *testing.T) {
	w := clusterMap(t, all(4), 1000)
	w.await(`document.querySelector('.node-card[data-state="silent"]')`)
	w.says("#nodes-title", "3 of 5 nodes answer")
	w.says(`.node-card[data-name="node-3"] .node-note`, "No answer: node-3: no answer in 10s")
	w.says(`.node-card[data-name="node-x"] .node-note`, "No kube-vmap: no pod of kube-vmap runs there")
	w.says(".problems li .reason", "problem: NoAnswer")
	w.await(`document.querySelector(".card-rate dd").textContent !== "–"`)
	w.await(`[...document.querySelectorAll(".rows .c-nodes .num:nth-child(3)")].every(n => n.textContent === "–")`)
}

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
		From: resolve.Object{Kind: "pod", Namespace: "shop", Name: "cart-7f9", Node: "node-1"}, To: resolve.Object{Kind: "service", Namespace: "shop", Name: "web"},
		Ways: []explain.Way{{
			Family: "IPv4", Protocol: "TCP", From: "10.244.1.7", To: "10.96.0.10:80", Service: "shop/web:http", Kind: "ClusterIP", Arrives: answer.Sometimes,
			Verdict: "arrives at 2 of 3 endpoints; on node-3 it is dropped",
			Causes:  []resolve.Cause{{Object: "NetworkPolicy shop/web", Field: "spec.ingress", Text: "a rule of another program on node-3 drops it"}},
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
