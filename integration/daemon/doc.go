// Package daemon runs the built kube-vmap for tests that take it as its users
// do: from outside, by what it does to packets.
//
//	Service --> Folder of manifests --> Daemon in the namespace of a node
//	   |                                   |
//	   +---- Frontends ---- asked by ---- Crowd, pods, nodes
//
// A [Service] says in a few fields what a Service is; it is the same value that
// says what the manifests hold and where clients find it. A [Daemon] tells by its
// log when it has taken what the folder says; what that means to packets is for
// tests to see.
//
// A package whose tests use it has a TestMain that calls [Main].
package daemon
