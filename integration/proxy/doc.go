// Package proxy holds the tests that take the product as its users do: the built
// kube-vmap runs in the namespace of a lab's node on a folder of manifests, and
// clients on that node, in its pods and outside send real packets.
//
//	folder of manifests --> kube-vmap --> nf_tables of node-1
//	                                          |
//	pod-3, node-1, outside --- ClusterIP -----+----> pod-1, pod-2, remote-1
//
// What a packet must meet is written in tables: services_test.go says in a line
// what a Service has, table_test.go what comes of asking it. Everything else is
// about the program's life: what it does with bad manifests, when it is killed,
// and when others work on its tables.
package proxy
