package page

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/web"
)

// sample is a handler with a document, and the queries that it got.
func sample(read func(ctx context.Context, q status.Query) (*status.Document, error)) http.Handler {
	return Handler(Config{Document: read, Version: "v1.2.3", Hosts: []string{"Node-1", "node-1.example.com.", ""}, Log: slog.New(slog.DiscardHandler)})
}

// fixed always returns the same document.
func fixed(d *status.Document) func(context.Context, status.Query) (*status.Document, error) {
	return func(context.Context, status.Query) (*status.Document, error) { return d, nil }
}

// ask sends a request; headers are pairs of name and value.
func ask(t *testing.T, h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Host = "localhost:10249"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// paths are all paths that are served, with their media types.
var paths = map[string]string{
	"/status/": "text/html; charset=utf-8", "/status/app.js": "text/javascript; charset=utf-8",
	"/status/walk.js": "text/javascript; charset=utf-8", "/status/style.css": "text/css; charset=utf-8",
	"/status/favicon.svg": "image/svg+xml", "/status/api/document?name=web": "application/json", "/status/api/overview": "application/json",
}

func TestEveryAnswerHasSecurityHeaders(t *testing.T) {
	want := map[string]string{
		"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Embedder-Policy": "require-corp", "Cross-Origin-Resource-Policy": "same-origin",
	}
	h := sample(fixed(&status.Document{}))
	for _, path := range []string{"/status/", "/status/app.js", "/status/api/overview", "/status/nothing", "/status/api/document?x=y"} {
		for _, host := range []string{"localhost", "elsewhere.example"} {
			header := ask(t, h, http.MethodGet, path, "Host", host, "Origin", "http://elsewhere.example").Header()
			for name, value := range want {
				if got := header.Get(name); got != value {
					t.Errorf("%s: %s is %q, want %q", path, name, got, value)
				}
			}
			for _, directive := range []string{
				"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
				"base-uri 'none'", "frame-ancestors 'none'", "form-action 'none'", "require-trusted-types-for 'script'",
			} {
				if !slices.Contains(strings.Split(header.Get("Content-Security-Policy"), "; "), directive) {
					t.Errorf("%s: the policy lacks %s", path, directive)
				}
			}
			if got := header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("%s: other sites may read it: %s", path, got)
			}
		}
	}
}

func TestOnlyReadMethodsAreServed(t *testing.T) {
	h := sample(fixed(&status.Document{}))
	for path, mediaType := range paths {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := ask(t, h, method, path)
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != mediaType {
				t.Errorf("%s %s answers %d, %s", method, path, w.Code, w.Header().Get("Content-Type"))
			}
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "BREW"} {
			w := ask(t, h, method, path)
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s answers %d, Allow %q", method, path, w.Code, w.Header().Get("Allow"))
			}
		}
	}
}

func TestUnknownFilesAreNotFound(t *testing.T) {
	h := sample(fixed(&status.Document{}))
	for _, path := range []string{
		"/", "/status/index.html", "/status/static/app.js", "/status/..%2fpage.go", "/status/api/", "/status/api/document/", "/status/app.js/", "/status/doc.go",
	} {
		if w := ask(t, h, http.MethodGet, path); w.Code != http.StatusNotFound {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
}

// TestOnlyHostNamesOfTheNodeAreServed is about DNS rebinding.
func TestOnlyHostNamesOfTheNodeAreServed(t *testing.T) {
	h := sample(fixed(&status.Document{}))
	for host, want := range map[string]int{
		"localhost": 200, "localhost:10249": 200, "LOCALHOST.:80": 200, "status.localhost:10249": 200,
		"127.0.0.1": 200, "127.0.0.1:10249": 200, "192.0.2.1:80": 200, "[::1]:10249": 200, "[2001:db8::1]": 200, "[fe80::1%25eth0]:80": 200,
		"node-1:10249": 200, "NODE-1": 200, "node-1.example.com:10249": 200, "node-1.example.com.": 200,
		"": 421, "evil.example": 421, "evil.example:10249": 421, "node-1.evil.example": 421, "localhost.evil.example": 421,
		"127.0.0.1.evil.example": 421, "evillocalhost": 421, ".": 421, "2130706433.evil.example": 421, "node-2": 421, ":10249": 421,
	} {
		for path := range paths {
			if w := ask(t, h, http.MethodGet, path, "Host", host); w.Code != want {
				t.Errorf("asked as %q, %s answers %d, want %d", host, path, w.Code, want)
			}
		}
	}
}

func TestFilesAreKeptUntilTheyChange(t *testing.T) {
	h := sample(fixed(&status.Document{}))
	first := ask(t, h, http.MethodGet, "/status/app.js")
	tag := first.Header().Get("ETag")
	if tag == "" || first.Header().Get("Cache-Control") != "no-cache" || first.Body.Len() == 0 {
		t.Fatalf("ETag %q, Cache-Control %q, %d bytes", tag, first.Header().Get("Cache-Control"), first.Body.Len())
	}
	if w := ask(t, h, http.MethodGet, "/status/app.js", "If-None-Match", tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("the same again answers %d and %d bytes", w.Code, w.Body.Len())
	}
	if w := ask(t, h, http.MethodGet, "/status/style.css", "If-None-Match", tag); w.Code != http.StatusOK {
		t.Errorf("another file with the same tag answers %d", w.Code)
	}
	if w := ask(t, h, http.MethodGet, "/status/api/overview"); w.Header().Get("Cache-Control") != "" || w.Header().Get("ETag") != "" {
		t.Errorf("the state may be kept: %v", w.Header())
	}
}

// TestPageLoadsNothingFromOtherHosts searches for what the policy would block.
func TestPageLoadsNothingFromOtherHosts(t *testing.T) {
	for name, text := range web.Texts(static) {
		bare := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")
		for _, word := range []string{
			"http://", "https://", "//cdn", "@import", "url(//", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
			"style=", "onclick=", "onload=", "javascript:", "<style",
		} {
			if strings.Contains(bare, word) {
				t.Errorf("%s has %q", name, word)
			}
		}
		if lines := strings.Count(string(text), "\n"); lines > 400 {
			t.Errorf("%s has %d lines", name, lines)
		}
	}
}

func TestDocumentMatchesTheQuery(t *testing.T) {
	var asked status.Query
	want := &status.Document{Source: status.FromDaemon, Node: "node-1", Services: []status.Service{{Namespace: "shop", Name: `<b onload="x">`}}}
	h := sample(func(_ context.Context, q status.Query) (*status.Document, error) { asked = q; return want, nil })
	for path, query := range map[string]status.Query{
		"/status/api/document?name=web":                           {Name: "web"},
		"/status/api/document?namespace=shop&name=web":            {Namespace: "shop", Name: "web"},
		"/status/api/document?brief=true":                         {Brief: true},
		"/status/api/document?brief=false&name=%22%2F%3C&brief=1": {Name: `"/<`, Brief: true},
	} {
		w := ask(t, h, http.MethodGet, path)
		var got status.Document
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Node != "node-1" || got.Services[0].Name != want.Services[0].Name {
			t.Errorf("%s answers %d %s", path, w.Code, w.Body)
		}
		if asked != query {
			t.Errorf("%s asks for %+v, want %+v", path, asked, query)
		}
		if strings.Contains(w.Body.String(), "<b") {
			t.Errorf("%s has markup in it: %s", path, w.Body)
		}
	}
	// All Services with endpoints could be hundreds of megabytes.
	for _, path := range []string{
		"/status/api/document?brief=perhaps", "/status/api/document?names=web",
		"/status/api/document", "/status/api/document?namespace=shop", "/status/api/document?name=", "/status/api/document?brief=false",
	} {
		if w := ask(t, h, http.MethodGet, path); w.Code != http.StatusBadRequest {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
}

func TestOverviewSumsUpEachService(t *testing.T) {
	three := status.Traffic{Connections: 3, Active: 2}
	doc := &status.Document{
		CountedAt: time.Unix(1, 0).UTC(),
		Problems:  []status.Problem{{Object: "ServiceCIDR x", Reason: "Unusable", Text: "no prefix"}},
		Services: []status.Service{{
			Namespace: "shop", Name: "web", Problems: []status.Problem{{Object: "Service shop/web", Reason: "AddressConflict", Text: "taken"}},
			Ports: []status.Port{
				{
					Protocol: "TCP", Family: "IPv4", Traffic: three,
					Frontends: []status.Frontend{{Address: "10.96.0.10", Port: 80, Verdict: "Balance"}, {Port: 30080, Verdict: "Drop"}},
					Endpoints: []status.Endpoint{{Address: "10.244.1.1", Slot: new(int)}, {Address: "10.244.1.2", Reason: "NotReady"}},
				},
				{Protocol: "UDP", Family: "IPv6", Traffic: three, Frontends: []status.Frontend{{Address: "fd00::a", Port: 53, Verdict: "Reject"}}},
				{Protocol: "SCTP", Family: "IPv4", Frontends: []status.Frontend{{Address: "10.96.0.10", Port: 3868, Verdict: "Balance"}}, Endpoints: []status.Endpoint{{Address: "10.244.1.1", Slot: new(int)}}},
			},
		}, {
			Namespace: "shop", Name: "none", Ports: []status.Port{{Frontends: []status.Frontend{{Port: 80, Verdict: "Reject"}}}},
		}},
	}
	w := ask(t, sample(fixed(doc)), http.MethodGet, "/status/api/overview")
	want := `{"source":"","time":"0001-01-01T00:00:00Z","node":"","version":"v1.2.3","ready":false,"counted":false,` +
		`"countedAt":"1970-01-01T00:00:01Z","summary":{"services":2,"problems":2,"notices":0,"others":1},"services":[` +
		`{"namespace":"shop","name":"web","addresses":["10.96.0.10:80/tcp","*:30080/tcp","[fd00::a]:53/udp","10.96.0.10:3868/sctp"],` +
		`"endpoints":{"used":1,"all":2},"state":"AddressConflict","severity":"Problem","connections":6,"active":4},` +
		`{"namespace":"shop","name":"none","addresses":["*:80/"],"endpoints":{"used":0,"all":0},"state":"NoEndpoints","severity":"Problem",` +
		`"connections":0,"active":0}],"problems":[` +
		`{"object":"ServiceCIDR x","reason":"Unusable","text":"no prefix"},` +
		`{"object":"Service shop/web","reason":"AddressConflict","text":"taken","namespace":"shop","name":"web"},` +
		`{"object":"Service shop/none","reason":"NoEndpoints","text":"a port has no endpoints: its connections are rejected","namespace":"shop","name":"none"}]}`
	if got := w.Body.String(); got != want {
		t.Errorf("the overview is\n%s\nwant\n%s", got, want)
	}
	empty := ask(t, sample(fixed(&status.Document{})), http.MethodGet, "/status/api/overview").Body.String()
	if !strings.Contains(empty, `"services":[],"problems":[]`) {
		t.Errorf("the overview of nothing is %s", empty)
	}
}

func TestAnswersAreCompressedOnRequest(t *testing.T) {
	h := sample(fixed(&status.Document{Node: strings.Repeat("node", 1000)}))
	plain := ask(t, h, http.MethodGet, "/status/api/document?name=web").Body.String()
	for accept, want := range map[string]string{
		"gzip": "gzip", "br, GZIP;q=0.5": "gzip", "*": "gzip", "gzip;q=1.0": "gzip",
		"": "", "br": "", "gzip;q=0": "", "gzip; q=0.0, br": "", "xgzip": "", "gzip;q=much": "",
	} {
		w := ask(t, h, http.MethodGet, "/status/api/document?name=web", "Accept-Encoding", accept)
		if got := w.Header().Get("Content-Encoding"); got != want || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("who takes %q gets %q", accept, got)
		}
		body := io.Reader(w.Body)
		if want != "" {
			unpacked, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = unpacked
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != plain {
			t.Errorf("who takes %q gets something else (%v)", accept, err)
		}
	}
}

func TestErrorsAreReturnedAndNotCached(t *testing.T) {
	err := errors.New("the loop does not answer")
	h := sample(func(context.Context, status.Query) (*status.Document, error) { return &status.Document{}, err })
	w := ask(t, h, http.MethodGet, "/status/api/overview")
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the loop does not answer") || w.Header().Get("Retry-After") == "" {
		t.Errorf("it answers %d %s", w.Code, w.Body)
	}
	if w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("with %v", w.Header())
	}
	err = nil
	if w := ask(t, h, http.MethodGet, "/status/api/overview"); w.Code != http.StatusOK {
		t.Errorf("after the error it answers %d", w.Code)
	}
}

func TestErrorIsLoggedOnChange(t *testing.T) {
	var log strings.Builder
	err := errors.New("one")
	h := Handler(Config{
		Document: func(context.Context, status.Query) (*status.Document, error) { return nil, err },
		Log:      slog.New(slog.NewTextHandler(&log, nil)),
	})
	for range 3 {
		ask(t, h, http.MethodGet, "/status/api/overview")
	}
	err = errors.New("another")
	ask(t, h, http.MethodGet, "/status/api/overview")
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines are logged:\n%s", n, &log)
	}
}

// Whoever reaches the page can read it: log lines and errors are for root.
func TestHealthIsNotServed(t *testing.T) {
	for path := range paths {
		d := &status.Document{Health: &status.Health{Warnings: status.Count{Count: 1, Text: "a secret"}, Source: "a secret"}}
		if w := ask(t, sample(fixed(d)), http.MethodGet, path); strings.Contains(w.Body.String(), "a secret") {
			t.Errorf("%s has the health of the process: %s", path, w.Body)
		}
	}
}
