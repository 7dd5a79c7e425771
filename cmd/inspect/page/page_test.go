package page

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/page/live"
)

// sample is the page of a cluster without nodes.
func sample() http.Handler {
	return Handler(Config{
		Cluster: live.New(noNodes{}), Path: "/secret/", Context: "prod",
		Explain: func(_ context.Context, q ExplainRequest) (any, error) { return q, nil },
	})
}

type noNodes struct{ live.Source }

// ask sends a request; headers are pairs of name and value.
func ask(t *testing.T, h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Host = "127.0.0.1:8001"
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

// paths are some that are served, below the token.
var paths = []string{"", "app.js", "dom.js", "cluster.css", "api/overview", "api/rows?service=shop/web", "api/service?namespace=shop&name=web", "api/path?from=pod/a&to=svc/b"}

func TestOnlyTheTokenOpensThePage(t *testing.T) {
	h := sample()
	for _, path := range paths {
		if w := ask(t, h, http.MethodGet, "/secret/"+path); w.Code != http.StatusOK {
			t.Errorf("%s answers %d %s", path, w.Code, w.Body)
		}
		for _, prefix := range []string{"/", "//", "/wrong/", "/secre/", "/secrets/", "/SECRET/", "/secret", "/x/secret/"} {
			w := ask(t, h, http.MethodGet, prefix+path)
			if w.Code != http.StatusNotFound && w.Code != http.StatusMovedPermanently || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%s answers %d %s", prefix+path, w.Code, w.Body)
			}
		}
	}
	if w := ask(t, Handler(Config{Cluster: live.New(noNodes{}), Path: "/"}), http.MethodGet, "//"); w.Code == http.StatusOK {
		t.Error("without a token everybody is served")
	}
}

func TestOtherHostsAndOriginsAreRefused(t *testing.T) {
	h := sample()
	for _, path := range paths {
		for _, host := range []string{"evil.example:8001", "192.0.2.1:8001", "127.0.0.1.evil.example", "node-1"} {
			if w := ask(t, h, http.MethodGet, "/secret/"+path, "Host", host); w.Code != http.StatusMisdirectedRequest {
				t.Errorf("asked as %s, %s answers %d", host, path, w.Code)
			}
		}
		for _, header := range [][2]string{{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Origin", "http://127.0.0.1:8002"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
			want := http.StatusOK
			if strings.HasPrefix(path, "api/") {
				want = http.StatusForbidden
			}
			if w := ask(t, h, http.MethodGet, "/secret/"+path, header[0], header[1]); w.Code != want {
				t.Errorf("with %s, %s answers %d, want %d", header, path, w.Code, want)
			}
		}
		for _, header := range [][2]string{{"Origin", "http://127.0.0.1:8001"}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}} {
			if w := ask(t, h, http.MethodGet, "/secret/"+path, header[0], header[1]); w.Code != http.StatusOK {
				t.Errorf("with %s, %s answers %d", header, path, w.Code)
			}
		}
		if w := ask(t, h, http.MethodPost, "/secret/"+path); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s answers %d", path, w.Code)
		}
	}
}

func TestEveryAnswerHasSecurityHeaders(t *testing.T) {
	h := sample()
	for _, path := range []string{"/secret/", "/secret/app.js", "/secret/api/overview", "/wrong/", "/secret/api/path"} {
		header := ask(t, h, http.MethodGet, path).Header()
		for _, name := range []string{"Content-Security-Policy", "Cross-Origin-Resource-Policy", "Referrer-Policy", "X-Content-Type-Options"} {
			if header.Get(name) == "" {
				t.Errorf("%s has no %s", path, name)
			}
		}
		if header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: other sites may read it", path)
		}
	}
	if got := ask(t, h, http.MethodGet, "/secret/api/overview").Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("the state may be kept: %q", got)
	}
}

func TestLoopbackServesNoOtherAddresses(t *testing.T) {
	h := onlyLoopback(http.NotFoundHandler())
	for host, want := range map[string]int{
		"localhost:8080": 404, "127.0.0.1:8080": 404, "127.1.2.3": 404, "[::1]:8080": 404, "page.localhost": 404,
		"192.0.2.1:8080": 421, "[2001:db8::1]:8080": 421, "10.0.0.1": 421, "0.0.0.0:8080": 421, "evil.example": 421, "": 421,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("asked as %q, it answers %d, want %d", host, w.Code, want)
		}
	}
}

func TestFilesHaveTheirTypesAndAreNotKept(t *testing.T) {
	h := sample()
	for name, want := range map[string]string{"": "text/html", "app.js": "text/javascript", "style.css": "text/css", "favicon.svg": "image/svg+xml"} {
		w := ask(t, h, http.MethodGet, "/secret/"+name)
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, want) || w.Header().Get("Cache-Control") != "no-store" || w.Body.Len() == 0 {
			t.Errorf("%q is %s, %d bytes", name, got, w.Body.Len())
		}
	}
}

// TestPageLoadsNothingFromOtherHosts searches for what the policy would block.
func TestPageLoadsNothingFromOtherHosts(t *testing.T) {
	names, err := fs.Glob(static, "static/*")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(static, name)
		if err != nil {
			t.Fatal(err)
		}
		bare := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")
		for _, word := range []string{"http://", "https://", "@import", "url(//", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "style=", "onclick=", "<style"} {
			if strings.Contains(bare, word) {
				t.Errorf("%s has %q", name, word)
			}
		}
		if lines := strings.Count(string(text), "\n"); lines > 400 {
			t.Errorf("%s has %d lines", name, lines)
		}
	}
}

// TestSlowAnswersAreUsedForLonger has a request every 100 ms.
func TestSlowAnswersAreUsedForLonger(t *testing.T) {
	for took, want := range map[time.Duration]int{0: 30, 500 * time.Millisecond: 11, 4 * time.Second: 5} {
		synctest.Test(t, func(t *testing.T) {
			a, made := answers{last: map[string]*jsonAnswer{}}, 0
			for start := time.Now(); time.Since(start) < time.Minute; <-time.After(100 * time.Millisecond) {
				_, err := a.get("", func() any { <-time.After(took); made++; return made })
				if err != nil {
					t.Fatal(err)
				}
			}
			if made != want {
				t.Errorf("of %s: %d in a minute, want %d", took, made, want)
			}
		})
	}
}
