// Package trace follows live packets through nf_tables: which chains they pass in
// which hook, which rules they meet there, and what became of them.
//
// nf_tables tells what it does with packets that carry a mark of its own, nf_trace.
// A [Tracer] makes a table that puts this mark on the packets asked for, and hears
// what is told of them:
//
//	hook          priority  chains of the tracer's table
//	prerouting    -399      begin-prerouting: sets the mark; behind defragmentation,
//	                        before everything else
//	output        -399      begin-output: the same for what the node itself sends
//	both          -199      state-*: what connection tracking makes of the packet; sets
//	                        the mark on answers, if wanted
//	the others    first     begin-*: empty; that a packet comes here says that it came
//	                        from the hook before
//	all five      last      end-*: empty; that a packet comes here says that nothing
//	                        took it in that hook
//
// Nobody else's table is changed, so tables that belong to other programs' sockets
// can be looked into as well. The table belongs to the tracer's socket and goes with
// it, however the process ends; before Linux 5.12, where tables belong to nobody, the
// next tracer removes what one left that was killed, so only one can run at a time.
//
//	nf_tables --messages--> Event --assembled--> Walk of one packet
//
// What the messages do not say, hooks and what rules do, is read from nf_tables when
// they arrive. The group of sockets that hears traces is not the one that hears
// changes, so that a tracer makes commits no slower.
//
// Messages name a packet by a number that the kernel makes from its buffer and from the
// interface it came in by. So the number changes where the interface does: on the
// loopback, and on a bridge that calls the hooks of IP (br_netfilter), whose prerouting
// belongs to the port and the rest to the bridge. Copies that a bridge makes have numbers
// of their own. There a walk goes on with the packet of the same addresses and ports that
// comes to the next hook.
//
//	port --> prerouting --+--> routing by the bridge --> input, or forward, postrouting
//	         (of IP)      |
//	                      +--> another port ----------> forward, postrouting
//
// Between the two a bridge can drop packets, keep them until a neighbour is known, or a
// program of tc can take them. If a packet was not seen again there, the tracer asks
// routing, and where that does not refuse it, the walk does not claim a loss
// ([EndingNotSeenAgain]).
//
// Limits. The mark is a packet's, not a connection's: each packet is found anew by
// what it looks like, and the answer's packets look different. Of a connection,
// chains of type nat see the first packet only. What happens before begin-prerouting
// (ingress hooks, XDP, tc, raw chains before defragmentation) is not seen, and of what
// is no nf_tables at all (iptables-legacy, IPVS, BPF, routing) only that it took the
// packet, and between which two places. Rules of iptables-nft are seen as all others.
package trace
