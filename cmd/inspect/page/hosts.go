package page

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// DNS rebinding: a web site can make its own name resolve to 127.0.0.1 or to the address
// of a node, and then read what is served there, since for the browser that is the same
// site. It cannot make the browser send another Host header. So only names are served
// that no other site controls:
//
//   - addresses, which are not resolved;
//   - localhost and its subdomains (RFC 6761 6.3: not resolved by DNS);
//   - the configured names. If a node's name is in DNS, the cluster's owner controls it.
//
// A name that only begins with the node's name is not served: its domain could be
// anyone's.

// errHost lists the names that are served.
var errHost = errors.New("unknown host name: use an address, localhost, or the node's name in the cluster")

// onlyHosts serves requests for these names, and refuses the rest.
func onlyHosts(names []string, h http.Handler) http.Handler {
	known := map[string]bool{"localhost": true}
	for _, name := range names {
		known[canonical(name)] = true
	}
	delete(known, "")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !served(r.Host, known) {
			refuse(w, http.StatusMisdirectedRequest, errHost)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// served reports whether the value of a Host header is served.
func served(host string, known map[string]bool) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	host = canonical(host)
	return known[host] || strings.HasSuffix(host, ".localhost")
}

// canonical returns the form in which names are compared.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
