package page

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// A site that somebody visits can let its own name resolve to 127.0.0.1 or to the
// address of a node, and then reads from there what it likes: for the browser that
// is the same site (DNS rebinding). What it cannot do is to make the browser send
// another name than its own. So only names are served that no stranger can let
// resolve to anything:
//
//   - addresses, which nobody resolves;
//   - localhost, and what is below it (RFC 6761 6.3: never asked of the DNS);
//   - the names that the configuration gives. A node's name may well be in the
//     DNS, but then it is the cluster's owner who says where it leads.
//
// A name of which only the first part is the node's is not served: the rest could
// be anybody's.

// errHost says what to do instead.
var errHost = errors.New("this name is not known to be the node's: ask by address, as localhost, or by the name that the node has in the cluster")

// onlyHosts serves what is asked by one of the names, and refuses the rest.
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

// served tells whether the page may be asked for by the value of a Host header.
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

// canonical is a name as it is compared.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
