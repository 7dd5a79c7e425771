package page

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/web"
	"kube-vmap/cmd/kubectl-vmap/nodes"
	"kube-vmap/cmd/kubectl-vmap/page/live"
)

// noNodes is a cluster without nodes.
type noNodes struct{}

func (noNodes) Nodes(context.Context) ([]nodes.Node, error) { return nil, nil }

func (noNodes) Document(context.Context, nodes.Node, status.Query) (*status.Document, error) {
	return nil, errors.New("there are no nodes")
}

func (noNodes) JSON(context.Context, nodes.Node, int, any, ...string) error {
	return errors.New("there are no nodes")
}

func sample() http.Handler {
	return Handler(Config{
		Cluster: live.New(noNodes{}), Token: "secret", Context: "prod",
		Explain: func(_ context.Context, q Question) (any, error) { return q, nil },
	})
}

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
var paths = []string{"", "app.js", "dom.js", "cluster.css", "api/overview", "api/rows?service=shop/web", "api/service?namespace=shop&name=web", "api/way?from=pod/a&to=svc/b"}

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
	if w := ask(t, Handler(Config{Cluster: live.New(noNodes{})}), http.MethodGet, "//"); w.Code == http.StatusOK {
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
	for _, path := range []string{"/secret/", "/secret/app.js", "/secret/api/overview", "/wrong/", "/secret/api/way"} {
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

// TestPageLoadsNothingFromOtherHosts searches for what the policy would block.
func TestPageLoadsNothingFromOtherHosts(t *testing.T) {
	for name, text := range web.Texts(static) {
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

func TestServeListensOnLoopbackWithANewToken(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		ctx, end := context.WithCancel(t.Context())
		in, out := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, Config{Cluster: live.New(noNodes{})}, 0, out) }()
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		at, err := url.Parse(strings.TrimSpace(line))
		if err != nil || at.Hostname() != "127.0.0.1" || len(at.Path) < 22 || seen[at.Path] {
			t.Errorf("it prints %q: %v", line, err)
		}
		seen[at.Path] = true
		client := http.Client{Timeout: 5 * time.Second}
		r, err := client.Get(at.String())
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("the printed URL answers %s", r.Status)
		}
		end()
		if err := <-done; err != nil {
			t.Errorf("at the end: %v", err)
		}
	}
}
