// Package proxy holds tests of the built kube-vmap as users run it: on a folder of
// manifests, in the namespace of a lab's node. Clients on that node, in its pods and
// outside send real packets.
//
//	folder of manifests --> kube-vmap --> nf_tables of node-1
//	                                          |
//	pod-3, node-1, outside --- ClusterIP -----+----> pod-1, pod-2, remote-1
//
// table_test.go lists Services and what clients must observe of each. The other
// tests are about the life of the program: invalid manifests, restarts, and other
// programs that change its tables. How it survives a kill is tested in
// integration/crash.
package proxy
