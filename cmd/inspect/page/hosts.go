package page

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Hosts are the host names under which a page is served.
//
// DNS rebinding: a web site can make its own name resolve to 127.0.0.1 or to the address
// of a node, and then read what is served there, since for the browser that is the same
// site. It cannot make the browser send another Host header. So only names are served
// that no other site controls:
//
//   - addresses, which are not resolved;
//   - localhost and its subdomains (RFC 6761 6.3: not resolved by DNS);
//   - the configured names. If a node's name is in DNS, the cluster's owner controls it.
//
// A name that only begins with a configured name is not served: its domain could be
// anyone's.
type Hosts struct {
	Names []string // in addition to localhost
	// Loopback allows no other addresses than those of loopback.
	Loopback bool
}

// Errors that list the names which are served.
var (
	errHost     = errors.New("unknown host name: use an address, localhost, or the node's name in the cluster")
	errLoopback = errors.New("unknown host name: use 127.0.0.1 or localhost")
)

// only serves requests for these hosts, and refuses the rest.
func (h Hosts) only(next http.Handler) http.Handler {
	known := map[string]bool{"localhost": true}
	for _, name := range h.Names {
		known[canonical(name)] = true
	}
	delete(known, "")
	refusal := errHost
	if h.Loopback {
		refusal = errLoopback
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.served(r.Host, known) {
			refuse(w, http.StatusMisdirectedRequest, refusal)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// served reports whether the value of a Host header is served.
func (h Hosts) served(host string, known map[string]bool) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(host); err == nil {
		return !h.Loopback || addr.IsLoopback()
	}
	host = canonical(host)
	return known[host] || strings.HasSuffix(host, ".localhost")
}

// canonical returns the form in which names are compared.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
