// Package serve is how the proxy is looked at from outside: two HTTP servers,
// with kube-proxy's ports, paths and answers, and one of our own on a Unix socket.
//
//	probes ----> Server 0.0.0.0:10256 ----> health.Health (/healthz, /livez, /readyz)
//	scrapers --> Server 127.0.0.1:10249 --> Metrics ------> /metrics, /metrics/slis
//	people -------------------------------------'    `----> /healthz, /proxyMode, /configz, /flagz, /statusz,
//	                                                        with profiling /debug/pprof/, /debug/flags
//	root ----> Server @kube-vmap -----------> NewStatus ----> /status, and what commands ask for besides
//
// There is neither TLS nor authentication, as in kube-proxy: who reaches a
// server may read all that it serves, but for the Unix socket, which answers root
// alone. So everything is for reading, except the log level where profiling is on;
// nothing that is sent is kept, or read beyond a small limit; and a client that is
// slow loses its connection.
package serve
