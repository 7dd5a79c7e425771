package page

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

var errLoopback = errors.New("unknown host name: use 127.0.0.1 or localhost")

// onlyLoopback serves requests for hosts that no other site controls: addresses of loopback, which
// are not resolved, localhost, and its subdomains (RFC 6761 6.3: not resolved by DNS). By DNS
// rebinding, a web site can make its own name resolve to 127.0.0.1, and then read what is served
// there, since for the browser that is the same site. It cannot make the browser send another Host
// header.
func onlyLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, errLoopback)
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
