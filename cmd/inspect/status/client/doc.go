// Package client asks a running kube-vmap on its status socket, for its [status.Document]
// and for texts; see [PathRules] and the other paths. Its errors say whether no process
// runs, none that can be trusted, or one that does not respond.
package client
