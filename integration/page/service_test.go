package page

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// detail opens the page of a Service, at a path.
func detail(t *testing.T, n *node, at string) *window {
	t.Helper()
	w := open(t, serve(t, n.handler()), "#/"+at, 1560, 1300)
	w.await(`document.querySelector(".walk")`)
	return w
}

func TestServicePageShowsAllParts(t *testing.T) {
	w := detail(t, shop(t, 0), "shop/web")
	w.await(`document.querySelector(".glance strong").textContent === "246"`)
	w.says("h1", "shop / web")
	w.says(".service .problems .words", "198.51.100.7:80/tcp belongs to Service shop/old, which claimed it first")
	want := []string{
		"10.96.0.11:80 ClusterIP Cluster unless from a pod any balances",
		"*:30080 NodePort Local this node's only any balances",
		"198.51.100.7:80 ExternalIP Cluster always any balances",
		"203.0.113.20:80 LoadBalancerIP Local this node's only 198.51.100.0/24, 192.0.2.0/25 balances",
	}
	frontends := `[...document.querySelectorAll(".frontends tbody tr")].map(r => [0, 1, 2, 3, 4, 8].map(i => r.cells[i].textContent).join(" "))`
	if got := get[[]string](w, frontends); !slices.Equal(got, want) {
		t.Errorf("the frontends are\n%s", strings.Join(got, "\n"))
	}
	want = []string{
		"10.244.0.81:8080 0 0 node-1 41.0 in use", "10.244.0.82:8080 1 – node-2 41.0 in use", "10.244.0.83:8080 2 – node-3 41.0 in use",
		"10.244.0.89:8080 – – node-2 0 it is not ready", "10.244.0.90:8080 – – node-3 0 its hints name zone-b, and this node is in zone-a",
	}
	endpoints := `[...document.querySelectorAll(".rows .row")].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map(r => [0, 1, 2, 3, 4, 7].map(i => r.cells[i].textContent).join(" "))`
	if got := get[[]string](w, endpoints); !slices.Equal(got, want) {
		t.Errorf("the endpoints are\n%s", strings.Join(got, "\n"))
	}
	w.await(`document.querySelector(".glance .spark .values")`)
	w.picture("detail-light")
	w.prefer("prefers-color-scheme", "dark")
	w.picture("detail-dark")
}

func TestPortsOfBothFamiliesAreTabs(t *testing.T) {
	w := detail(t, shop(t, 0), "kube-system/kube-dns")
	tabs := `[...document.querySelectorAll('[role="tab"]')].map(t => t.textContent)`
	if got := get[[]string](w, tabs); !slices.Equal(got, []string{"dns UDP IPv4", "dns-tcp TCP IPv4", "dns UDP IPv6", "dns-tcp TCP IPv6"}) {
		t.Errorf("the tabs are %q", got)
	}
	get[bool](w, `(document.querySelectorAll('[role="tab"]')[3].click(), true)`)
	w.await(`document.querySelector(".frontends td").textContent === "[fd00:10:96::9]:53"`)
	if got := get[string](w, "location.hash"); got != "#/kube-system/kube-dns/dns-tcp-TCP-IPv6" {
		t.Errorf("the address is %s", got)
	}
	w.await(`document.querySelector('[role="tab"][aria-selected="true"]').textContent === "dns-tcp TCP IPv6"`)
}

// drawn returns the names in the picture.
const drawn = `[...document.querySelectorAll(".walk .node")].map(n => n.dataset.name)`

func TestPathIsDrawnWithNamesOfTheRuleSet(t *testing.T) {
	n := shop(t, 0)
	more := map[string]func(*status.Port){
		"rr": func(p *status.Port) { p.Scheduler = "rr" }, "sh": func(p *status.Port) { p.Scheduler = "sh" },
		"mh": func(p *status.Port) { p.Scheduler = "mh" }, "sticky": func(p *status.Port) { p.AffinitySeconds = 60 },
		"always":  func(p *status.Port) { p.Frontends[0].Masquerade = "always" },
		"never":   func(p *status.Port) { p.Frontends[0].Masquerade = "never" },
		"local":   func(p *status.Port) { p.Frontends[0].Policy = "Local" },
		"weights": func(p *status.Port) { p.Endpoints[0].Share, p.Endpoints[1].Share, p.Endpoints[2].Share = 2, 1, 1 },
		"heavy":   func(p *status.Port) { p.Endpoints[0].Share, p.Endpoints[1].Share, p.Endpoints[2].Share = 298, 1, 1 },
		"table": func(p *status.Port) {
			p.Scheduler = "mh"
			p.Endpoints[0].Share, p.Endpoints[1].Share, p.Endpoints[2].Share = 125, 63, 63
		},
		"many": func(p *status.Port) { *p = port("", "UDP", "IPv6", 53, 40, 300) },
		"nodeport-gone": func(p *status.Port) {
			*p = port("", "TCP", "IPv4", 80, 41, 0)
			p.Frontends = append(p.Frontends, status.Frontend{Port: 30081, Kind: "NodePort", Policy: "Cluster", Verdict: "Reject", Masquerade: "always"})
		},
	}
	for name, change := range more {
		p := port("", "SCTP", "IPv6", 3868, 42, 3)
		change(&p)
		n.document.Services = append(n.document.Services, status.Service{Namespace: "ways", Name: name, Ports: []status.Port{p}})
	}
	server := serve(t, n.handler())
	slots := "ep-0 ep-1 ep-2"
	for at, want := range map[string]string{
		"shop/web": "map services, cluster-3, lb-3, " + slots,
		"shop/web/http-TCP-IPv4/ExternalIP-198.51.100.7-80": "map services, external-3, service-3, lb-3, " + slots,
		"shop/web/http-TCP-IPv4/NodePort--30080": "map node-ports, node-port-external-local-3, node-port-external-3, node-port-service-3, lb-3, " + slots +
			", map local-node-ports, node-port-local-service-1, local-lb-1, local-ep-0",
		"shop/web/http-TCP-IPv6/LoadBalancerIP-2001%3Adb8%3A113%3A%3A20-80": "source-check, map services, external-local-3, external-3, service-3, lb-3, " + slots +
			", map local-services, local-service-1, local-lb-1, local-ep-0",
		"shop/uploads/https-TCP-IPv4/LoadBalancerIP-203.0.113.21-443": "map services, external-local-2, external-2, service-2, lb-2, ep-0 ep-1, map local-services, map no-endpoint-services, drop",
		"shop/cart":     "filter-forward, filter-output, service-check, map no-endpoint-services, reject-chain",
		"core/diameter": "map services, cluster-1, lb-1, ep-0",
		"ways/rr":       "map services, cluster-rr-3, rr-3, " + slots,
		"ways/sh":       "map services, cluster-sh-3, sh-3, " + slots,
		"ways/mh":       "map services, cluster-maglev-251, maglev-251, " + slots,
		"ways/sticky":   "map services, cluster-sticky-4-60s, sticky-4-60s, map sticky-numbers, sticky-endpoint",
		"ways/always":   "map services, masquerade-3, lb-3, " + slots,
		"ways/never":    "map services, lb-3, " + slots,
		"ways/local":    "map services, local-cluster-1, local-lb-1, local-ep-0",
		"ways/weights":  "map services, cluster-4, lb-4, " + slots,
		"ways/heavy":    "map services, cluster-300, lb-300, map endpoints-many",
		"ways/table":    "map services, cluster-maglev-251, maglev-251, " + slots,
		"ways/many":     "map services, cluster-300, lb-300, map endpoints-many",
		"ways/nodeport-gone/TCP-IPv4/NodePort--30081": "filter-input, map no-endpoint-node-ports, reject-chain",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := open(t, server, "#/"+at, 1680, 900)
			w.await(`document.querySelector(".walk")`)
			names := strings.FieldsFunc(strings.ReplaceAll(want, "ep-0 ", "ep-0,"), func(r rune) bool { return r == ',' })
			var expected []string
			for _, name := range names {
				name = strings.TrimSpace(name)
				if strings.HasPrefix(name, "map ") {
					expected = append(expected, name)
				} else {
					expected = append(expected, strings.Fields(name)...)
				}
			}
			expected = append(expected, "nat-prerouting", "nat-output")
			var got []string
			for _, name := range get[[]string](w, drawn) {
				isEndpoint := strings.Contains(name, ":8080") || strings.Contains(name, "more endpoints")
				if !isEndpoint && name != "nat-postrouting" && !slices.Contains(got, name) {
					got = append(got, name)
				}
			}
			slices.Sort(got)
			slices.Sort(expected)
			if !slices.Equal(got, expected) {
				t.Errorf("the names are\n%q\nwant\n%q", got, expected)
			}
			parts := strings.Split(at, "/")
			w.picture("way-" + parts[1] + "-" + strings.ToLower(strings.Split(parts[len(parts)-1], "-")[0]))
			if strings.Contains(want, "reject") == get[bool](w, `Boolean(document.querySelector(".walk .node-endpoint"))`) {
				t.Error("an endpoint is drawn where everything is refused, or none where it is not")
			}
		})
	}
}

func TestSlotSharesAddUp(t *testing.T) {
	n := shop(t, 0)
	n.document.Services = append(n.document.Services, status.Service{
		Namespace: "shop", Name: "dozen", Ports: []status.Port{port("", "TCP", "IPv4", 80, 43, 12)},
	})
	w := detail(t, n, "shop/dozen")
	if got := get[[]string](w, `[...document.querySelectorAll(".walk .share")].map(s => s.textContent)`); len(got) != 7 || got[0] != "8.3 %" {
		t.Errorf("12 endpoints have shares of %q", got)
	}
	if got := get[bool](w, `[...document.querySelectorAll(".walk .node")].some(n => n.dataset.name === "ep-7 … 11")`); !got {
		t.Error("those that are not drawn are not mentioned")
	}
	w = detail(t, n, "shop/sessions")
	if got := get[[]string](w, drawn); !slices.Contains(got, "5 more endpoints") {
		t.Errorf("endpoints that are not drawn are not mentioned: %q", got)
	}
	w.says(".about", "An endpoint is picked at random; a client keeps its endpoint for 3 h.")
}

func TestClickSelectsFrontend(t *testing.T) {
	w := detail(t, shop(t, 0), "shop/web")
	get[bool](w, `(document.querySelectorAll(".frontends tbody tr")[2].cells[2].click(), true)`)
	w.await(`[...document.querySelectorAll(".walk .node")].some(n => n.dataset.name === "external-3")`)
	if got := get[string](w, "location.hash"); got != "#/shop/web/http-TCP-IPv4/ExternalIP-198.51.100.7-80" {
		t.Errorf("the address is %s", got)
	}
	w.says(".frontends tr.is-chosen td", "198.51.100.7:80")
}

func TestPathIsDescribedInWords(t *testing.T) {
	w := detail(t, shop(t, 0), "shop/cart")
	label := get[string](w, `document.querySelector(".walk").getAttribute("aria-label")`)
	for _, words := range []string{"10.96.0.14:80/TCP", "no-endpoint-services leads to reject-chain", "the client gets an error immediately"} {
		if !strings.Contains(label, words) {
			t.Errorf("%q lacks %q", label, words)
		}
	}
	if n := get[int](w, `document.querySelectorAll(".aside li").length`); n < 2 {
		t.Errorf("there are %d sentences", n)
	}
	w = detail(t, shop(t, 0), "shop/web")
	if got := w.text(".looks pre"); !strings.Contains(got, "nft get element ip kube-vmap services '{ 10.96.0.11 . tcp . 80 }'\n") {
		t.Errorf("the commands are\n%s", got)
	}
}

func TestMissingServiceIsReported(t *testing.T) {
	t.Parallel()
	n := shop(t, 0)
	w := open(t, serve(t, n.handler()), "#/shop/nothing", 1360, 860)
	w.await(`!document.querySelector(".service .empty").hidden`)
	n.mu.Lock()
	n.document.Services = append(n.document.Services, status.Service{Namespace: "shop", Name: "nothing", Ports: []status.Port{port("", "TCP", "IPv4", 80, 50, 2)}})
	n.mu.Unlock()
	w.await(`document.querySelector(".walk")`)
	if !get[bool](w, `document.querySelector(".service .empty").hidden`) {
		t.Error("it still says that there is none")
	}
}

// TestThousandsOfEndpointsAreShown has the Service of the largest test cluster.
func TestThousandsOfEndpointsAreShown(t *testing.T) {
	s := status.Service{Namespace: "big", Name: "one", Ports: []status.Port{port("", "TCP", "IPv6", 80, 1, 20000)}}
	w := detail(t, newNode(s), "big/one")
	w.says(".port h2:last-of-type", "Endpoints: 20,000 of 20,000 in use")
	if n := get[int](w, `document.querySelectorAll("*").length`); n > 1500 {
		t.Errorf("there are %d elements", n)
	}
	get[bool](w, `(scrollTo(0, document.body.scrollHeight), true)`)
	w.await(`[...document.querySelectorAll(".rows .row")].some(r => r.ariaRowIndex === "20001")`)
}

// hostile are names that look like markup or URLs.
func TestNamesCannotBecomeMarkup(t *testing.T) {
	t.Parallel()
	hostile := []string{
		`<img src=x onerror="document.title='taken'">`, `"><script>document.title='taken'</script>`, `javascript:alert(1)`, `</title><svg onload=alert(1)>`,
		"../../metrics", "%2e%2e", "a b?c#d&e=f", "\u202e\u0000\ufeffx", "__proto__", "constructor", strings.Repeat("w", 4000), "' onfocus=alert(1) autofocus='",
	}
	n := newNode()
	for i, name := range hostile {
		p := port(name, "TCP", "IPv4", 80, i, 2)
		p.Endpoints[0].Node, p.Endpoints[1].Reason = name, name
		p.Scheduler = name
		p.Frontends[0].Policy, p.Frontends[0].Masquerade = name, "never"
		p.Frontends[0].Restricted, p.Frontends[0].Sources = true, []string{name}
		n.document.Services = append(n.document.Services, status.Service{
			Namespace: name, Name: name, Ports: []status.Port{p}, Problems: []status.Problem{{Object: name, Reason: name, Text: name}},
		})
	}
	n.document.Node, n.document.Version = hostile[0], hostile[1]
	n.document.Problems = []status.Problem{{Object: hostile[0], Reason: hostile[1], Text: hostile[2]}}
	server := serve(t, n.handler())
	w := open(t, server, "", 1360, 860)
	w.await(fmt.Sprintf(`document.querySelectorAll(".rows .row").length === %d`, len(hostile)))
	for i := range hostile {
		w := open(t, server, "", 1360, 860)
		w.await(`document.querySelectorAll(".rows .row").length > 0`)
		get[bool](w, fmt.Sprintf(`(document.querySelectorAll(".rows .row")[%d].click(), true)`, i))
		w.await(`document.querySelector(".walk")`)
		if got := get[int](w, `document.querySelectorAll("main img, main script, main iframe, main [onerror], main [onload], main [onfocus], main [autofocus]").length`); got != 0 {
			t.Errorf("%d elements come from names", got)
		}
		if got := get[string](w, "document.title"); got == "taken" {
			t.Error("a name runs")
		}
		if !get[bool](w, `[...document.querySelectorAll("main a")].every(a => a.getAttribute("href").startsWith("#/"))`) {
			t.Error("a link leads elsewhere")
		}
	}
}

func TestHiddenPageDoesNotPoll(t *testing.T) {
	t.Parallel()
	n := shop(t, 0)
	w := rows(t, n)
	asked := func() int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.asked
	}
	w.press("p")
	w.await(`document.getElementById("live").dataset.state === "paused"`)
	before := asked()
	select {
	case <-time.After(3 * time.Second):
	case <-w.ctx.Done():
	}
	if now := asked(); now != before {
		t.Errorf("while it pauses, it asks %d times", now-before)
	}
	w.press("p")
	w.await(`document.getElementById("live").dataset.state === "live"`)
	get[bool](w, `(Object.defineProperty(document, "hidden", { value: true, configurable: true }), document.dispatchEvent(new Event("visibilitychange")))`)
	w.await(`document.getElementById("live").dataset.state === "paused"`)
	get[bool](w, `(delete document.hidden, document.dispatchEvent(new Event("visibilitychange")))`)
	w.await(`document.getElementById("live").dataset.state === "live"`)
}

func TestMissingAnswerIsReported(t *testing.T) {
	t.Parallel()
	n := shop(t, 0)
	h := n.handler()
	away := make(chan struct{})
	server := serve(t, switchable(h, away))
	w := open(t, server, "", 1360, 860)
	w.ignore("Failed to load resource")
	w.await(`document.querySelectorAll(".rows .row").length > 3`)
	n.mu.Lock()
	n.err = context.DeadlineExceeded
	n.mu.Unlock()
	w.await(`document.getElementById("banner").textContent.startsWith("The server has no state to show: read the state: context deadline exceeded")`)
	n.mu.Lock()
	n.err = nil
	n.mu.Unlock()
	w.await(`document.getElementById("banner").hidden && document.getElementById("live").dataset.state === "live"`)
	close(away)
	w.await(`document.getElementById("banner").textContent.startsWith("The server does not answer. What is shown is from")`)
	w.says("#live-text", "No answer")
	if n := get[int](w, `document.querySelectorAll(".rows .row").length`); n == 0 {
		t.Error("what was known is not shown any more")
	}
	w.picture("no-answer")
}

func TestUnchangedStateIsStale(t *testing.T) {
	t.Parallel()
	n := shop(t, 0)
	fixed := n.document.Time
	w := open(t, serve(t, n.handler()), "", 1360, 860)
	w.await(`document.querySelectorAll(".rows .row").length > 3`)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			n.mu.Lock()
			n.document.Time = fixed
			n.mu.Unlock()
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	w.await(`document.getElementById("live").dataset.state === "old"`)
	w.says("#live-text", "Stale")
}
