package page

import (
	"io/fs"
	"mime"
	"net/http"
)

// mediaTypes are fixed, since package mime depends on the machine's files.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// files serves the page's files. Browsers do not keep them, so after an update no old part is
// combined with a new one.
func files() http.Handler {
	texts, err := fs.Sub(static, "static")
	for extension, mediaType := range mediaTypes {
		if err == nil {
			err = mime.AddExtensionType(extension, mediaType)
		}
	}
	if err != nil {
		panic("page: " + err.Error()) // known at build time
	}
	return http.FileServerFS(texts)
}
