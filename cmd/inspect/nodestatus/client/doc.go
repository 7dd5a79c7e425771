// Package client asks a running kube-vmap on its status socket, for its [status.Document]
// and for texts; see [PathRules] and the other paths. Its errors distinguish a process
// that does not run, one that cannot be trusted, and one that does not respond.
package client
