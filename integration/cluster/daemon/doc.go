// Package daemon runs a node's Service proxy on a lab's node against an API server:
// the built kube-vmap, or kube-proxy to compare it with. To package process it adds
// requests to the proxy's HTTP endpoints from inside the node, and the cost of the
// process.
package daemon
