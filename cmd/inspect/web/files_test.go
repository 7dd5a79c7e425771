package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func TestPageHasItsOwnAndTheSharedFiles(t *testing.T) {
	page := fstest.MapFS{
		"static/index.html": {Data: []byte("<body>\n<!-- icons.html -->\n</body>")},
		"static/style.css":  {Data: []byte("of the page")},
	}
	for pattern, h := range Files(page) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		if w.Header().Get("Content-Type") == "" {
			t.Errorf("%s has no media type", pattern)
		}
		body := w.Body.String()
		if pattern == "{$}" && (!strings.Contains(body, `<symbol id="i-ok"`) || strings.Contains(body, "<!--")) {
			t.Errorf("the page has no icons: %s", body)
		}
		if pattern == "style.css" && body != "of the page" {
			t.Errorf("the page's own file is %q", body)
		}
	}
	texts := Texts(page)
	if texts["dom.js"] == nil || texts["icons.html"] != nil {
		t.Errorf("shared files are wrong: dom.js has %d bytes, icons.html %d", len(texts["dom.js"]), len(texts["icons.html"]))
	}
}
