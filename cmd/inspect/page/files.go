package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed static
var static embed.FS

// mediaTypes are fixed, since package mime depends on the machine's files.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// files returns handlers of the embedded files, by path below [Path]; index.html is the page.
func files() map[string]http.Handler {
	out := map[string]http.Handler{}
	entries, err := static.ReadDir("static")
	if err != nil {
		panic("page: " + err.Error()) // embedded at build time
	}
	for _, e := range entries {
		text, err := fs.ReadFile(static, "static/"+e.Name())
		if err != nil {
			panic("page: " + err.Error())
		}
		name := e.Name()
		if name == "index.html" {
			name = "{$}"
		}
		out[name] = file(mediaTypes[path.Ext(e.Name())], text)
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
