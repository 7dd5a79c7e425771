// Package daemon runs the built kube-vmap on a folder of manifests, for tests that
// observe what happens to packets.
//
//	Service --> Folder of manifests --> Daemon in the namespace of a node
//	   |                                   |
//	   +--- AddrPort: where clients connect, from outside, pods and nodes
//
// A [Service] describes a Service and its endpoints in a few fields. The same value
// writes the manifests and returns the addresses where clients reach it. Methods of
// [Daemon] wait for lines of its log: what these mean to packets is for the tests
// to check.
//
// A package whose tests use it has a TestMain that calls [Main].
package daemon
