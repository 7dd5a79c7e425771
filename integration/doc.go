// Package integration holds tests that need a kernel, an API server or time: tests
// with real packets between network namespaces, the demo, and the benchmarks. It also
// holds tests of the source tree as a whole: that what documents name exists.
//
// These packages help to write tests:
//
//	lab         network namespaces connected to a test network, with clients and servers
//	process     a program on a host of a lab, and its log
//	daemon      kube-vmap on a folder of manifests; Services in a few fields
//	clients     clients that keep asking Services while a test changes something
//	desired     the rules that the proxy must program for a folder of manifests
//	eventually  polling with a deadline
//
// The tests may import every other package of this module. Nothing imports them.
package integration
