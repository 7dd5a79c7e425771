package page

import (
	"errors"
	"net/http"
	"strings"
)

// policy is what the page's own scripts may do: load what is served here, and
// nothing else. Trusted Types make the browser refuse to read markup from a string,
// so that no name of a Service can become any.
var policy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
	"base-uri 'none'", "frame-ancestors 'none'", "form-action 'none'",
	"require-trusted-types-for 'script'", "trusted-types 'none'",
}, "; ")

// guarded keeps other sites from making use of what is served. That an answer is taken
// for what it says, and not kept, is seen to by the server for all that it serves.
func guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Embedder-Policy": "require-corp",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	})
}

// readOnly refuses whatever is not for reading.
func readOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, errors.New("the page is for reading only"))
			return
		}
		h.ServeHTTP(w, r)
	})
}
