// Package healthcheck serves the health checks of load balancers: one HTTP server for
// each Service with a healthCheckNodePort, on all addresses where this node serves node
// ports.
//
//	Committed.HealthChecks --> Servers --> listen.Sockets          GET any path
//	Committed.NodeAddrs -------'               '--> http.Server <--------------- load balancer:
//	/livez: is the proxy healthy? ------------------'                            does this node have endpoints?
//
// A Service has a healthCheckNodePort if its external traffic policy is Local: only nodes
// with endpoints of it should get its connections. Responses are byte for byte those of
// kube-proxy: 200 if the node has endpoints and their rules are up to date, otherwise
// 503. Endpoints are counted by IP family: the response at an IPv6 address has the number
// of IPv6 endpoints.
//
// Differences from kube-proxy: a Service of one family responds on the node's addresses
// of the other family, too, with the count of its own, because Kubernetes' e2e tests
// expect it; node addresses that come and go are followed, while kube-proxy reads them
// once; and a port that could not be opened is retried soon, not only when a Service
// changes.
package healthcheck
