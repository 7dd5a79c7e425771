// Package legacy removes what kube-proxy left in the legacy backend of iptables.
// Those rules do not lie in nf_tables, and the kernel offers no way to change them
// but to read a table as a blob, of a layout that each match and target decides,
// and to write all of it back. So this is left to who knows how, the programs
// iptables-legacy-save and iptables-legacy-restore, where they are at hand.
//
//	/proc/net/ip_tables_names      are there any legacy tables?
//	         |
//	iptables-legacy-save -t nat    text --> leftovers.Table --> leftovers.Plan
//	         |
//	iptables-legacy-restore        text: -D jumps, -F and -X chains, COMMIT
//
// A restore with --noflush is one transaction for a table: all of it or nothing.
// What belongs to kube-proxy is decided by package leftovers, for both backends
// alike.
//
// Where the kernel lists no legacy tables, which is so on most nodes, nothing is
// run. Where it does and the programs are missing, as in our own image, the log
// says what to do by hand.
package legacy
