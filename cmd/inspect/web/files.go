package web

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
var shared embed.FS

// icons is the file that replaces the line of the same name in a page.
const icons = "icons.html"

// mediaTypes are fixed, since package mime depends on the machine's files.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Texts returns the files of a page in the folder "static", and those that all pages share,
// by name.
func Texts(page fs.FS) map[string][]byte {
	out := map[string][]byte{}
	for _, from := range []fs.FS{shared, page} {
		entries, err := fs.ReadDir(from, "static")
		if err != nil {
			panic("web: " + err.Error()) // embedded at build time
		}
		for _, e := range entries {
			if out[e.Name()], err = fs.ReadFile(from, "static/"+e.Name()); err != nil {
				panic("web: " + err.Error())
			}
		}
	}
	out["index.html"] = bytes.Replace(out["index.html"], []byte("<!-- "+icons+" -->\n"), out[icons], 1)
	delete(out, icons)
	return out
}

// Files returns handlers of a page's files by the pattern of their path; the page itself is
// index.html.
func Files(page fs.FS) map[string]http.Handler {
	out := map[string]http.Handler{}
	for name, text := range Texts(page) {
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
