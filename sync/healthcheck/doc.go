// Package healthcheck answers the health checks of load balancers: one HTTP
// server for each Service with a healthCheckNodePort, on all addresses where
// this node serves node ports.
//
//	Taken.HealthChecks --> Servers --> listen.Sockets          GET anything
//	Taken.NodeAddrs -------'               '--> http.Server <--------------- load balancer:
//	/livez: is the proxy alive? ----------------'                            has this node endpoints of the Service?
//
// A Service gets one if its external traffic policy is Local: only nodes that
// have endpoints of it should get its connections. Answers are kube-proxy's in
// each byte; 200 means that the node has some and that their rules are kept up to
// date, 503 that it has not. Endpoints are counted per IP family, and who asks
// over IPv6 hears of those of IPv6.
//
// What differs: addresses of the node that come and go are followed, while
// kube-proxy looks for them once, and a port that could not be opened is tried
// again soon and not only when some Service changes.
package healthcheck
