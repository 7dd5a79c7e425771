package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"
)

// mediaTypes are fixed, since package mime depends on the machine's files.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// texts returns the files of the page by name.
func texts() map[string][]byte {
	entries, err := fs.ReadDir(static, "static")
	out := map[string][]byte{}
	for _, e := range entries {
		if out[e.Name()], err = fs.ReadFile(static, "static/"+e.Name()); err != nil {
			break
		}
	}
	if err != nil {
		panic("page: " + err.Error()) // embedded at build time
	}
	return out
}

// files returns handlers of the page's files by the pattern of their path; the page itself is
// index.html.
func files() map[string]http.Handler {
	out := map[string]http.Handler{}
	for name, text := range texts() {
		pattern := name
		if name == "index.html" {
			pattern = "{$}"
		}
		out[pattern] = file(mediaTypes[path.Ext(name)], text)
	}
	return out
}

// file serves a file. Browsers may cache it but must revalidate it, so that after an
// update no old part is combined with a new one.
func file(mediaType string, text []byte) http.Handler {
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	})
}
