package takeover

import (
	"slices"

	"kube-vmap/model"
)

// One author of Services must not be able to return a node: an endpoint may refuse the
// connections that come through its Service and answer the others. So failures of a single
// namespace count only if nothing else was tried, or if they are those of the API server.

// maxRefusedShare is one in how many Service ports the kernel may refuse.
const maxRefusedShare = 20

// shareIsTooLarge reports whether so many refused Service ports, of so many namespaces, fail
// a check.
func shareIsTooLarge(refused, namespaces, ports int) bool {
	return refused >= 2 && namespaces >= 2 && refused*maxRefusedShare > ports
}

// kubernetes is the Service of the API server.
var kubernetes = model.ServiceName{Namespace: "default", Name: "kubernetes"}

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
