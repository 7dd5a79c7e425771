// Package explain says what the kernel would do with a packet. It is an interpreter
// of nf_tables' own rules, as the kernel holds them: what it finds in chains and
// maps is what a packet would find, whoever put it there.
//
//	           Sources: Rules, Network, Connections
//	                        |  only what the packet meets
//	                        v
//	Packet --> one way through the hooks, rule by rule --> leaf
//	   ^                    |  at a random pick,             |
//	   |                    |  the next choice               |
//	   +--------------------+                                v
//	                             leaves with their probabilities --> Walk, in words
//
// A way through is run with one list of choices: what random picks came to. Where a
// way met a pick, another way is run for each other choice, from the start. So the
// interpreter itself never branches, and reads as the kernel does: registers, one
// expression after the other, verdicts (net/netfilter/nf_tables_core.c). Sources are
// asked for a thing once, whatever number of ways meet it. Leaves are put together as
// they come; there are at most 4,096, and of the rest only the probability is told.
//
// What it does not understand it says. In a table of ours nothing can be said then;
// in one of another program the walk goes on as if the rule did not match, with a
// doubt noted. It sees nf_tables only: no iptables-legacy, IPVS or BPF.
package simulate
