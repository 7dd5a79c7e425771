// Package takeover replaces kube-proxy on a node in a way that can be undone. kube-proxy's
// rules are suspended in the transaction that adds ours, and removed only after a
// probation in which kube-vmap has proved to work here.
//
//	start --returned before--> returned: stay, report it
//	  |
//	  v                          another proxy runs
//	first commit -------------------------------------> other-proxy
//	  | suspends kube-proxy's rules                      |  look again every 5 seconds
//	  v                          its rules are awake     v
//	probation <----------------------------------------> alone: suspend them
//	  |       \
//	  |        `--fails 3 checks in a row--> kube-proxy's rules resumed, ours deleted,
//	  v                                      in one transaction; returned
//	done: kube-proxy's rules removed
//
// # Another proxy
//
// Nothing of a proxy that runs is touched. A proxy runs if another process listens on a
// proxy's ports, or if a process named kube-proxy runs in the same network namespace. Of
// processes of the host a container sees only the ports. A kube-proxy with other ports and in
// another PID namespace is noticed only when it writes: in iptables mode each sync
// resumes its rules, and in nftables mode chains come and go with Services and endpoints.
// Then its rules are resumed and stay, beside ours.
//
// # Checks
//
// Every 5 seconds of the probation: changes reach the kernel in time; the kernel refuses
// few Service ports; and a sample of ClusterIPs that the node could connect to before the
// first commit still answers. kube-proxy's rules and the loop's state, which take longer to
// read in a larger cluster, are read less often. Something that one author of Services can
// cause never fails a check (see verdict.go).
//
// A process that ends again and again before its first sync checks nothing, so starts are
// counted (see state.go).
//
// # Returned
//
// A process that has returned the node, or is started on it later, changes nothing. It reports
// the reason and what kube-proxy does, until the stored state is removed (see returned.go).
//
// # State
//
// The end of the probation with the number of starts, or that the node was returned, is stored as the comment of a
// table in the kernel. Like kube-proxy's rules it survives a restart, but not a reboot.
package takeover
