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
// date, 503 that it has not. Endpoints are counted per IP family: the answer at an
// IPv6 address is the count of IPv6 endpoints.
//
// What differs: a Service of one family answers at the node's addresses of the
// other family too, with the count of its own, because Kubernetes' e2e tests ask
// there; addresses of the node that come and go are followed, while kube-proxy
// looks for them once; and a port that could not be opened is tried again soon and
// not only when some Service changes.
package healthcheck
