package page

import (
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/nodes"

	"github.com/chromedp/chromedp/kb"
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
