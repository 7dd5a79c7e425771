// Package trace follows live packets through nf_tables: which chains and rules they pass in
// which hook, and how they end.
//
// nf_tables sends a message about every step of a packet that has a mark of its own,
// nf_trace. A [Tracer] adds a table that puts this mark on the selected packets, and receives
// the messages:
//
//	hook          priority  chains of the tracer's table
//	prerouting    -399      begin-prerouting: sets the mark; after defragmentation, before
//	                        everything else
//	output        -399      begin-output: the same for what the node itself sends
//	both          -199      state-*: the packet's state in conntrack; sets the mark on
//	                        replies, if configured
//	the others    first     begin-*: empty; a packet that comes here came from the hook
//	                        before
//	all five      last      end-*: empty; a packet that comes here was not taken in that
//	                        hook
//
// No other table is changed, so this also works for tables that other programs' sockets own.
// The tracer's socket owns the table, which is deleted with the socket, however the process
// ends.
//
//	nf_tables --messages--> event --assembler--> Path of one packet
//
// Hooks of chains and texts of rules are not in the messages; they are read when a message
// arrives. Traces and changes have different multicast groups, so a tracer does not make
// commits slower.
//
// A message names its packet by an ID that the kernel makes from the packet's buffer and its
// input interface. So the ID changes on the loopback, and on a bridge that calls the hooks of IP
// (br_netfilter), where prerouting belongs to the port and the rest to the bridge; copies have
// IDs of their own. Then a path is continued by the packet with the same addresses and ports
// that enters the next hook:
//
//	port --> prerouting --+--> routing by the bridge --> input, or forward, postrouting
//	         (of IP)      |
//	                      +--> another port ----------> forward, postrouting
//
// Between the two, a bridge or a program of tc can take packets. If a packet was not seen again
// there and routing does not refuse it, it is not reported as lost ([EndingNotSeenAgain]).
//
// Limits. The mark belongs to a packet, not to a connection: each packet is selected by its
// own headers, and the headers of replies differ. Chains of type nat see the first packet of a
// connection only. What happens before begin-prerouting (ingress hooks, XDP, tc, raw chains
// before defragmentation) is not seen. Of what is not nf_tables (iptables-legacy, IPVS, BPF,
// routing) it is only seen that it took the packet, and between which two points. Rules of
// iptables-nft are seen as all others.
package trace
