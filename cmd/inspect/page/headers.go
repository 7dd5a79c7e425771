package page

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy lets a page load only what its own server has. With Trusted Types the browser
// refuses to parse markup from strings, so names of Services cannot become markup.
var policy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
	"base-uri 'none'", "frame-ancestors 'none'", "form-action 'none'",
	"require-trusted-types-for 'script'", "trusted-types 'none'",
}, "; ")

// securityHeaders keeps other sites from using what is served, and answers out of caches.
func securityHeaders(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"Referrer-Policy":              "no-referrer",
			"X-Content-Type-Options":       "nosniff",
			"Cache-Control":                "no-store",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Embedder-Policy": "require-corp",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	})
}

// onlyLoopback serves requests for hosts that no other site controls: addresses of loopback, which
// are not resolved, localhost, and its subdomains (RFC 6761 6.3: not resolved by DNS). By DNS
// rebinding, a web site can make its own name resolve to 127.0.0.1, and then read what is served
// there, since for the browser that is the same site. It cannot make the browser send another Host
// header.
func onlyLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, errors.New("unknown host name: use 127.0.0.1 or localhost"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether the value of a Host header is served.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
