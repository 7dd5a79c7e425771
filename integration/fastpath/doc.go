// Package fastpath holds tests of kube-vmap with --fast-path: real packets of established
// connections bypass the hook forward, and what ends or stops connections does so as without
// it.
//
//	pod-3, pod-1, outside --> ClusterIP, node port --> pod-1, pod-2, remote-1
//	                              |
//	                              +-- a counter in the hook forward: which packets pass it
//
// They need a kernel with flowtables: those of integration/kernels have them. Tests of other
// packages can be repeated there with the fast path, from the first packets of each connection:
//
//	bin/test-kernels -flags '--fast-path --fast-path-after=1' -suites matrix 6.1
package fastpath
