package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/explain"
)

// hostile are names that look like markup or URLs.
func TestNamesCannotBecomeMarkup(t *testing.T) {
	t.Parallel()
	hostile := []string{
		`<img src=x onerror="document.title='taken'">`, `"><script>document.title='taken'</script>`, `javascript:alert(1)`, `</title><svg onload=alert(1)>`,
		"../../metrics", "%2e%2e", "a b?c#d&e=f", "\u202e\u0000\ufeffx", "__proto__", "constructor", strings.Repeat("w", 4000), "' onfocus=alert(1) autofocus='",
	}
	var services []nodestatus.Service
	for i, name := range hostile {
		p := port(name, "TCP", "IPv4", 80, i, 2)
		p.Endpoints[0].Node, p.Endpoints[1].Reason = name, name
		p.Scheduler = name
		p.Frontends[0].Policy, p.Frontends[0].Masquerade = name, "never"
		p.Frontends[0].Restricted, p.Frontends[0].Sources = true, []string{name}
		services = append(services, nodestatus.Service{
			Namespace: name, Name: name, Ports: []nodestatus.Port{p}, Problems: []nodestatus.Problem{{Object: name, Reason: name, Text: name}},
		})
	}
	f := newFleet(1, func() []nodestatus.Service { return services })
	d := f.at["node-1"]
	d.Node, d.Version = hostile[0], hostile[1]
	d.Problems = []nodestatus.Problem{{Object: hostile[0], Reason: hostile[1], Text: hostile[2]}}
	f.nodes[0].Name = hostile[0]
	f.at[hostile[0]], f.rates[hostile[0]] = d, map[string]uint64{}
	f.way = hostileReport(hostile)
	server := f.serve(t)
	shown := fmt.Sprintf(`document.querySelectorAll(".rows .row").length === %d`, len(hostile))
	w := openAt(t, server, "", 1360, 860)
	for i := range len(hostile) + 1 {
		w.await(shown)
		if i < len(hostile) {
			get[bool](w, fmt.Sprintf(`(document.querySelectorAll(".rows .row")[%d].click(), true)`, i))
			w.await(`document.querySelector(".flows")`)
		} else {
			get[string](w, `location.hash = "#/path?from=x&to=y"`)
			w.await(`document.querySelector(".way .stop-endpoint")`)
		}
		if got := get[int](w, `document.querySelectorAll("main img, main script, main iframe, main [onerror], main [onload], main [onfocus], main [autofocus]").length`); got != 0 {
			t.Errorf("%d elements come from names", got)
		}
		if got := get[string](w, "document.title"); got == "taken" {
			t.Error("a name runs")
		}
		if !get[bool](w, `[...document.querySelectorAll("main a")].every(a => a.getAttribute("href").startsWith("#/"))`) {
			t.Error("a link leads elsewhere")
		}
		get[string](w, `location.hash = "#/"`)
	}
}

// hostileReport returns the answer for a packet with such names everywhere.
func hostileReport(names []string) *explain.Report {
	r := journey()
	all := strings.Join(names, " ")
	r.From.Name, r.Notes, r.Differences[0].Text = all, names, all
	w := &r.Ways[0]
	w.Verdict, w.Service, w.Causes[0].Text, w.Client.Answer.Steps[0].Text, w.Client.Answer.Steps[0].Chain = all, all, all, all, all
	w.Endpoints[0].Pod, w.Endpoints[0].Why = all, all
	return r
}

func TestHiddenPageDoesNotPoll(t *testing.T) {
	t.Parallel()
	f := shop(0)
	asked := make(chan struct{}, 1000)
	h := f.handler(t)
	w := openAt(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/overview") {
			asked <- struct{}{}
		}
		h.ServeHTTP(w, r)
	})), "", 1360, 860)
	w.await(`document.querySelectorAll(".rows .row").length > 3`)
	w.press("p")
	w.await(`document.getElementById("live").dataset.state === "paused"`)
	before := len(asked)
	select {
	case <-time.After(3 * time.Second): // the time in which it would ask
	case <-w.ctx.Done():
	}
	if now := len(asked); now > before+1 { // one may have been under way
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
	f := shop(0)
	h, away := f.handler(t), make(chan struct{})
	w := openAt(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-away:
			panic(http.ErrAbortHandler)
		default:
			h.ServeHTTP(w, r)
		}
	})), "", 1360, 860)
	w.ignoreFailedLoads()
	w.await(`document.querySelectorAll(".rows .row").length > 3`)
	f.mu.Lock()
	f.silent["node-1"] = "context deadline exceeded"
	f.mu.Unlock()
	w.await(`document.querySelector(".node-note")?.textContent === "No answer: context deadline exceeded"`)
	f.mu.Lock()
	delete(f.silent, "node-1")
	f.mu.Unlock()
	w.await(`document.querySelector('.node-card[data-state="problem"]') && document.getElementById("live").dataset.state === "live"`)
	close(away)
	w.await(`document.getElementById("banner").textContent.startsWith("The server does not answer. What is shown is from")`)
	w.says("#live-text", "No answer")
	if n := get[int](w, `document.querySelectorAll(".rows .row").length`); n == 0 {
		t.Error("what was known is not shown any more")
	}
}

// TestMissingServiceIsReported has a Service that appears later, with 20,000 endpoints.
func TestMissingServiceIsReported(t *testing.T) {
	t.Parallel()
	f := shop(0)
	w := openAt(t, f.serve(t), "#/service/big/one", 1360, 860)
	w.await(`document.querySelector(".service .empty") && !document.querySelector(".service .empty").hidden`)
	f.mu.Lock()
	d := f.at["node-1"]
	d.Services = append(d.Services, nodestatus.Service{Namespace: "big", Name: "one", Ports: []nodestatus.Port{port("", "TCP", "IPv6", 80, 1, 20000)}})
	f.mu.Unlock()
	w.await(`document.querySelector(".flows")`)
	w.says(".port h2:last-of-type", "Endpoints: 256 of 256 in use; 19,744 more are not listed")
	if n := get[int](w, `document.querySelectorAll("*").length`); n > 3000 {
		t.Errorf("there are %d elements", n)
	}
}
