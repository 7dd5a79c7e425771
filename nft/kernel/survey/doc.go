// Package survey lists what other programs have in the kernel's packet filters, by name: the
// tables and chains of nf_tables, of every family, and those of the legacy backend of
// iptables. It changes nothing: no table is created, and no module of iptables is loaded to find out that
// there is nothing.
//
//	nf_tables             netlink: NFT_MSG_GETTABLE, NFT_MSG_GETCHAIN    names, hooks, policies
//	iptables-legacy       /proc/thread-self/net/ip_tables_names          which tables exist
//	                      package xtables                                their chains, policies
//
// No rule is read, so that a survey of a node with 50,000 chains is cheap. The legacy
// backend has one blob for a table, with the names of its chains in it; so that needs no
// program of iptables, which many images do not have.
//
// A survey is not one moment: other programs may write while it is read. What it is for, to
// recognize other programs, does not depend on that.
package survey
