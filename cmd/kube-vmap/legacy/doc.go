// Package legacy finds, suspends, resumes and removes what kube-proxy has in the legacy backend
// of iptables. Those rules are not in nf_tables, and the kernel can only read and write a
// whole table as a blob, whose layout depends on each match and target. So this runs the
// programs iptables-legacy-save and iptables-legacy-restore, if they are installed.
//
//	/proc/net/ip_tables_names      are there legacy tables?
//	         |
//	iptables-legacy-save -t nat    text --> kubeproxy.Table --> kubeproxy.Plan
//	         |
//	iptables-legacy-restore        text: -D jumps, -F and -X chains, COMMIT
//
// To suspend a chain, a rule that returns is inserted at its head; see package kubeproxy. A
// restore with --noflush is one transaction per table, and never one with our own rules.
// Package kubeproxy decides what is kube-proxy's, for both backends.
//
// Without legacy tables in the kernel, as on most nodes, no program runs. Without the programs,
// as in our own image, the names of chains are read with package xtables: [Find] returns the
// tables that have chains of kube-proxy, and after a removal the log has the manual steps.
package legacy
