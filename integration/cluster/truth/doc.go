// Package truth computes a node's expected rule set from the objects in the API, and
// compares it with the one in the kernel.
//
//	API  --list-->  sync/source/convert  -->  sync.Build  -->  tables --+
//	node's interfaces  -->  which serve node ports  --------------------+--> Diff
//	node's nf_tables  --netlink-->  kernel.Read  -->  tables -----------+
//
// It lists with kube-proxy's selectors, without watches and caches, so that it does not
// share the proxy's mistakes there. Sizes of sets and the order of slots are ignored (see
// package looptest).
package truth
