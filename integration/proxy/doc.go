// Package proxy holds tests of the built kube-vmap as users run it: on a folder of
// manifests, in the namespace of a lab's node. Clients on that node, in its pods and
// outside send real packets.
//
//	folder of manifests --> kube-vmap --> nf_tables of node-1
//	                                          |
//	pod-3, node-1, outside --- ClusterIP -----+----> pod-1, pod-2, remote-1
//
// The tests are about the life of the program: invalid manifests, restarts, and other
// programs that change its tables. What packets see is tested in integration/matrix, and
// how it survives a kill in integration/crash.
package proxy
