// Package flowtable programs the fast path of established connections: a table of its own, of
// family inet, with a flowtable of nf_tables. Packets of a connection that is in it are
// translated and sent on where they enter the node, without routing, connection tracking and
// rules.
//
//	table inet kube-vmap-fast-path {
//		flags owner
//		flowtable connections {
//			hook ingress priority filter
//			devices = { cni0, eth0, veth1 }
//			counter
//		}
//		chain forward {
//			type filter hook forward priority filter + 10; policy accept;
//			ct state established ct status dnat ct packets > 20 goto enter
//		}
//		chain enter {
//			iifkind "bridge" oifkind "bridge" return
//			flow add @connections
//		}
//	}
//
// The table is not part of the rule set (package nft), because flows are lost with the table
// that has them, because it follows the interfaces of the node instead of Services, and
// because it must not outlive the process: it belongs to a socket, with which the kernel
// removes it.
//
// Only translated connections enter, and only after a number of packets in both directions, so
// that short ones do not pay for a flow. The expression that reads this number makes the
// kernel count packets of connections (net.netfilter.nf_conntrack_acct, nft_ct_get_init), and
// the flag counter makes it continue for connections in the flowtable. Connections of one
// bridge do not enter: br_netfilter hands translated requests to the bridge without
// routing them, so the flowtable would not find the requests and each would cost more.
//
// Since Linux 6.17 the flowtable has one device, the empty prefix, which matches every interface
// including loopbacks. nft 1.0.6 and 1.1.3 list the table without its flowtable then. Older
// kernels get the names of all interfaces but loopbacks.
//
// The kernel itself (nf_flow_table_ip.c, nf_flow_table_core.c) leaves to the slow path packets
// that are fragments, have IP options, exceed the MTU, or whose TTL ends here. A connection
// leaves the flowtable 30 s after its last packet, when its route changes, when its entry of
// connection tracking is deleted and, in kernels without fdbaf5163331 (2025), with the first
// packet that has FIN or RST.
package flowtable
