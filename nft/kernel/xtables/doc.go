// Package xtables reads the rules of the legacy backend of iptables from the kernel, which has
// them not in nf_tables, but as one blob for each table. It needs no program of iptables.
//
//	/proc/thread-self/net/ip_tables_names   Names      which tables exist
//	getsockopt IPT_SO_GET_INFO, GET_ENTRIES ReadTable  the blob: entries, one behind the other
//	                                        Read       --> simulate.BaseChain, simulate.Rule
//
// An entry is a rule: addresses, interfaces and the protocol, then matches, then a target. A
// jump is an offset in the blob. A chain that is only jumped to begins with an entry whose
// target ERROR has its name; a chain at a hook ends with its policy. Rules are returned as
// iptables-nft would write them: with native expressions, and matches and targets of package
// xt, whose structures are the same in both backends.
//
// The structures are those of include/uapi/linux/netfilter_ipv4/ip_tables.h,
// netfilter_ipv6/ip6_tables.h and netfilter/x_tables.h.
package xtables
