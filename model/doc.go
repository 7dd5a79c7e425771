// Package model decides how one node serves the Services of a cluster. It knows
// neither Kubernetes objects nor the kernel nor the time; it imports only the
// standard library.
//
// Its inputs are Services and EndpointSlices, reduced to plain values; its results
// are frontends. A frontend is an address and port that packets are sent to, with
// the endpoints that may serve it on this node and the treatment of its
// connections.
//
//	Service ---------\                      /--> frontends that are set or removed
//	EndpointSlice ----+--> ServiceMap --> Changes --> conflicts between Services
//	Node, Options ---/     (all state)      \--> health checks, Services over budget
//
// [ServiceMap.Changes] handles only the Services that changed:
//
//	EndpointSlices --> candidates --> endpoint lists --> frontends --> claims --> Changes
//	                   of each port   by conditions,     of each       one winner
//	                                  hints and node     address       of each Match
//
// Everything but [ServiceMap] is a value or a function of values. ServiceMap remembers
// what it returned last, so an event costs in proportion to what it changes, and not to
// the size of the cluster. For a Service with many EndpointSlices it keeps the endpoints
// sorted, so a changed slice costs its own size and a copy of the endpoint lists.
//
// The rules are the same as in kube-proxy, because users rely on them. Where a rule comes
// from a KEP, the code names it.
//
// # Files in reading order
//
// The values: service.go, endpointslice.go, node.go, options.go (input);
// frontend.go, pool.go (output).
//
// The decisions: criteria.go (which endpoints serve a port), reasons.go (why an endpoint
// does not), frontends.go (the frontends of one Service), healthcheck.go, claims.go
// (which Service owns an address and port), budget.go (which Services are too expensive),
// scheduler.go, maglev.go.
//
// What followers change: overlay.go, unresponsive.go, slowstart.go.
//
// The state: servicemap.go, resolver.go (turns changed Services into changed frontends),
// postpone.go (which changes are postponed).
//
// The index of endpoints, which makes large Services cheap: candidates.go,
// endpointindex.go, endpointcache.go.
package model
