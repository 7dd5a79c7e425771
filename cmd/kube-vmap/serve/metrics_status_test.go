package serve

import (
	"net/http"
	"testing"
)

func TestStatusPageIsServedOnlyIfConfigured(t *testing.T) {
	with := sample(t)
	with.Status = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: what the page does not keep is %q", r.URL, got)
		}
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write([]byte(r.Method + " " + r.URL.Path))
	})
	for _, path := range []string{"/status/", "/status/api/document", "/status/app.js"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			w := ask(t, with, request(t, method, path, ""))
			if want := method + " " + path; w.Code != http.StatusOK || w.Body.String() != want {
				t.Errorf("%s answers %d %q, want %q", want, w.Code, w.Body, want)
			}
			if got := w.Header().Get("Cache-Control"); got != "no-cache" {
				t.Errorf("%s %s: Cache-Control is %q: the page knows best what may be kept", method, path, got)
			}
		}
		header := ask(t, with, request(t, http.MethodGet, path, "")).Header()
		if got := header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options is %q", path, got)
		}
		if w := ask(t, sample(t), request(t, http.MethodGet, path, "")); w.Code != http.StatusNotFound {
			t.Errorf("without the page, %s answers %d", path, w.Code)
		}
	}
	if w := ask(t, with, request(t, http.MethodGet, "/statusz", "")); w.Code != http.StatusOK {
		t.Errorf("beside the page, /statusz answers %d", w.Code)
	}
}
