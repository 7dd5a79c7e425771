// Package walk has a packet explained with what the kernel of one network namespace
// holds: the rules that nf_tables has, the node's routes, and its connections. It
// reads, and changes nothing.
package walk
