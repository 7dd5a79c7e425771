// Package lab is a laboratory of network namespaces: a node with its pods, a
// second node if wanted, and a host outside, on one machine, without touching
// the machine's own network.
//
//	        pod-1            pod-2            ...
//	     10.244.1.2       10.244.1.3
//	         |                |           a veth pair and a host route each
//	+--------+----------------+--------+        +-----------------------------+
//	|              node-1              |        |      node-2 (if wanted)     |
//	|  10.244.1.1          192.0.2.1   |        |  10.244.2.1     192.0.2.2   |
//	+-----------------------+----------+        +--------------------+--------+
//	                        |                                        |
//	                     ---+---------------- 192.0.2.0/24 ----------+---
//	                                         |
//	                              outside 192.0.2.100
//
// With [Options.Bridge] the pods of a node are on a bridge of it instead of links of
// their own, and what the bridge carries passes the node's hooks:
//
//	        pod-1            pod-2            ...
//	+--------+----------------+--------+
//	|        +---- cni0 ------+        |
//	|          10.244.1.1              |
//
// Every address has its IPv6 sister: fd00:10:244:1::2 for 10.244.1.2,
// 2001:db8:2::1 for 192.0.2.1, and so on. Nodes forward. Packets between pods of
// one node pass the node, also those of a pod to itself once the node has
// translated them. The host outside sends what is for pods and for
// [ServiceRanges] to the nodes.
//
// Every [Host] can run code ([Host.Do]) and commands ([Host.Command]), serve
// ([Host.Serve], [Host.ServeWeb]) and ask ([Host.Ask], [Host.Flow],
// [Host.Burst]) over TCP, UDP and SCTP. A server says who it is and which source
// it saw; what comes of a question is an [Answer]: answered, refused, timed out,
// unreachable or reset, and after how long.
//
// The package needs root and Linux, and knows nothing of proxies or their rules.
// It speaks SCTP itself, over raw sockets, and so cannot where the kernel's own
// SCTP is loaded.
package lab
