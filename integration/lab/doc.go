// Package lab builds a test network of network namespaces on one machine: a node with
// its pods, optionally a second node and a third, and a host outside. It does not touch
// the machine's own network.
//
//	        pod-1            pod-2            ...
//	     10.244.1.2       10.244.1.3
//	         |                |           a veth pair and a host route each
//	+--------+----------------+--------+        +-----------------------------+
//	|              node-1              |        |      node-2 (optional)      |
//	|  10.244.1.1          192.0.2.1   |        |  10.244.2.1     192.0.2.2   |
//	+-----------------------+----------+        +--------------------+--------+
//	                        |                                        |
//	                     ---+---------------- 192.0.2.0/24 ----------+---
//	                                         |
//	                              outside 192.0.2.100
//
// With [Options.Bridge] the pods of a node are on a bridge instead of links of their
// own, and bridged packets pass the node's IP hooks:
//
//	        pod-1            pod-2            ...
//	+--------+----------------+--------+
//	|        +---- cni0 ------+        |
//	|          10.244.1.1              |
//
// node-3 ([Options.ThirdPods]) is like node-2: 192.0.2.3, with pods 10.244.3.2 and on.
//
// Every host also has IPv6 addresses: fd00:10:244:1::2 with 10.244.1.2, 2001:db8:2::1
// with 192.0.2.1, and so on. Nodes forward packets. Packets between pods of one node
// pass the node, also those of a pod to itself after translation. The host outside
// routes pod addresses and [ServiceRanges] to the nodes.
//
// Every [Host] can run code ([Host.Do]) and commands ([Host.Command]), serve ([Host.Serve])
// and ask ([Host.Ask], [Host.Flow], [Host.Burst]) over TCP, UDP and SCTP. A server answers
// with its name and the source address that it saw. The result of a question is an
// [Answer]: answered, refused, timed out, unreachable or reset, and the time that this took.
//
// The package needs root and Linux. It knows nothing about proxies and their rules. It
// implements SCTP over raw sockets, which does not work if the kernel's SCTP module is
// loaded.
package lab
