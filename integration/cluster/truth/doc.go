// Package truth works out from an API's objects what a node's rule set should
// mean, and compares that with what the kernel holds.
//
//	API  --list-->  sync/convert  -->  sync.Build  -->  tables --+
//	node's interfaces  -->  which serve node ports  ----------------+--> Diff
//	node's nf_tables  --netlink-->  kernel.Read  -->  tables -------+
//
// It lists with kube-proxy's selectors, without watches or caches, so that it does
// not share what a proxy may do wrong there. Sizes of sets and the order of slots
// have no meaning (see package looptest).
package truth
