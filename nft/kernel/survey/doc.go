// Package survey lists what other programs have in the kernel's packet filters, by name: the
// tables and chains of nf_tables, of every family, and those of the legacy backend of
// iptables. It changes nothing: no table is created, and no module of iptables is loaded only
// to find no rules.
//
//	nf_tables             netlink: NFT_MSG_GETTABLE, NFT_MSG_GETCHAIN    names, hooks, policies
//	iptables-legacy       /proc/thread-self/net/ip_tables_names          which tables exist
//	                      getsockopt(IPT_SO_GET_ENTRIES)                 names of their chains
//
// [Tables] and [Legacy] decode no rules, so that a survey of a node with 50,000 chains is cheap; a
// [RuleReader] reads those of single chains of nf_tables. The legacy backend has one blob for a
// table, with the names of its chains in it, so that no program of iptables is needed: many images
// have none.
//
// A survey is not a snapshot: other programs may write while it is read. To recognize programs,
// that does not matter.
package survey
