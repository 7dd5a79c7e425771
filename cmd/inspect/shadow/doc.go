// Package shadow compares what kube-vmap would do with what the rules of the proxy on the
// node do, without programming anything.
//
//	Services, slices -> sync.Loop on a kernel that takes everything -> rule set in memory
//	                                                                      | ours
//	     the same simulated packets  ---------------------------------->  nft/simulate
//	                                                                      | theirs
//	kernel: rules of kube-proxy (theirs.go)      -------------------------+
//
// [compareOnce] runs one round: for every frontend that one of the two has, it sends packets of
// a pod, the node and a client outside through both, and of clients at the bounds of source
// ranges and of the Service's own endpoints. A [Difference] is about endpoints, their shares,
// masquerade, refusals or affinity. Where kube-vmap differs on purpose, the
// difference has the reason in Intended (intended.go) and does not count.
//
// kube-proxy needs some seconds for a change, so a tracker reports a difference if two rounds
// in a row have found it and the Service's data has not changed for a while. A round keeps
// nothing of the Services that it has compared.
package shadow
