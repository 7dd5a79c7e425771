package takeover

import (
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// One author of Services must not be able to return a node. An endpoint may refuse or drop the
// connections that come through its Service, or the first three of them, and answer the others.
// So a failure counts only if the rules can be the reason (see blamesRules), and nothing that
// the author chooses has changed since the endpoints were read (see changes.go). In addition,
// failures of a single namespace count only if nothing else was tried, or if they are those of
// the API server.

// maxRefusedShare is one in how many Service ports the kernel may refuse.
const maxRefusedShare = 20

// shareIsTooLarge reports whether so many refused Service ports, of so many namespaces, fail
// a check.
func shareIsTooLarge(refused, namespaces, ports int) bool {
	return refused >= 2 && namespaces >= 2 && refused*maxRefusedShare > ports
}

// kubernetes is the Service of the API server.
var kubernetes = model.ServiceName{Namespace: "default", Name: "kubernetes"}

// blamesRules reports whether rules can be the reason for a failed connection. If it was
// translated to an endpoint that the API lists and passed all rules, the endpoint is. The
// endpoints of the API server are not those of an author of Services. So a failure to reach
// them may also be due to rules that drop answers.
func blamesRules(s target, o observation, endpoints []netip.AddrPort) bool {
	return s.service.ServiceName == kubernetes || o.known && !slices.Contains(endpoints, o.reply)
}

// decisive reports whether these failures of a sample fail a check.
func decisive(failed []failure, sample []target) bool {
	if len(failed) == 0 {
		return false
	}
	first := failed[0].service.Namespace
	return len(failed) == len(sample) || slices.ContainsFunc(failed, func(f failure) bool {
		return f.service.ServiceName == kubernetes || f.service.Namespace != first
	})
}
