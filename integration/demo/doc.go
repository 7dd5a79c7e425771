// Package demo shows what kube-vmap does, with real packets, as a test. It builds a cluster of
// network namespaces and runs kube-vmap on its node, on a folder of manifests.
// Then it changes the manifests, sends requests to the Services from a pod, from
// the node and from outside, and prints in 40 lines what happens. With -v it also prints
// each batch as nft commands, each client's answers, and the rules in the kernel:
//
//	make demo
//	make demo VERBOSE=-v
//
// `make wake` shows a Service without a pod, whose clients wait until there is one, `make retry` a
// rollout of a program that refuses connections.
//
// Everything that they print is verified.
package demo
