// Package daemon runs a node's Service proxy on a lab's node, as its supervisor
// would: the built kube-vmap, or kube-proxy to compare it with. It starts and ends
// the process, reads its log, asks its HTTP endpoints from inside the node, and
// looks up what the process costs.
package daemon
