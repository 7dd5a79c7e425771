// Package simulate predicts what the kernel does with a packet. It interprets the rules of
// nf_tables as the kernel holds them, of all programs. What a walk meets are events; a caller that
// knows some of the tables turns them into notes of its own ([Own]).
//
//	           Sources: Rules, Network, Connections
//	                        |  only what the packet meets
//	                        v
//	Packet --> one walk through the hooks, rule by rule --> leaf
//	   ^                    |  at a random pick,             |
//	   |                    |  the next result               |
//	   +--------------------+                                v
//	                           leaves with their probabilities --> Result
//
// A walk is run with a list of choices: the results of random picks. For each other result of
// a pick, another walk is run from the start. So the interpreter itself never branches and
// reads as the kernel works: registers, one expression after the other, verdicts
// (net/netfilter/nf_tables_core.c). Sources are asked for each thing once. Leaves are merged
// as they come; there are at most 4,096, and of the rest only the probability is known.
//
// At the end of the way there, the same walk goes on with the endpoint's reply: a packet of an
// established connection, which chains of type nat do not see and connection tracking
// translates back; and then with what the client sends next. Their picks are choices of that
// walk, so they multiply the walks by no more than their own picks do.
//
// What the interpreter does not understand is reported. In a table of the caller's own the outcome is
// unknown then. In other tables, an effect that is not understood is a doubt, as is
// what is not known of links, routing and the order of chains. A match that cannot be decided, such
// as a limit, is followed both ways: the result is that of a rule that does not match, and the
// doubt is noted only if the other way ends elsewhere, or with other probabilities.
//
// An expression of nf_tables is a [kind], with how it is decoded, run and printed; a match or target
// of iptables-nft is an [Extension]. iptables-legacy, IPVS and BPF are not simulated.
package simulate
