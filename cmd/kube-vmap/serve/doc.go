// Package serve has the proxy's HTTP servers: two with kube-proxy's ports, paths and
// answers, and one of our own on a Unix socket.
//
//	probes ----> Server 0.0.0.0:10256 ----> health.Health (/healthz, /livez, /readyz)
//	scrapers --> Server 127.0.0.1:10249 --> Metrics ------> /metrics, /metrics/slis
//	people -------------------------------'    `----> /healthz, /proxyMode, /configz, /flagz, /statusz,
//	                                                        with profiling /debug/pprof/, /debug/flags
//	root ----> Server @kube-vmap -----------> NewStatus ----> /status and the texts of package nodestatus
//
// As in kube-proxy, there is neither TLS nor authentication: every client that reaches a
// server may read everything it serves, except that the Unix socket answers root alone. So
// all is read-only, except the log level with profiling; nothing that is sent is kept, or
// read beyond a small limit; and a slow client loses its connection.
package serve
