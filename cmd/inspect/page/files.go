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

// mediaTypes are said rather than looked up, since that would depend on what the
// machine knows.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// files serve what is embedded, by path below [Path]; index.html is the page itself.
func files() map[string]http.Handler {
	out := map[string]http.Handler{}
	entries, err := static.ReadDir("static")
	if err != nil {
		panic("page: " + err.Error()) // it is in the program, or the program does not build
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

// file serves a text. Browsers may keep it, but ask each time whether it is still
// the same: after an update, no part of the old page must meet one of the new.
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
