// Package masquerade makes short connections that a node masquerades, and counts what the
// kernel does with them: SYNs that are sent again, connections that stall, and packets that
// connection tracking drops.
//
//	clients ----> node: dnat, masquerade ----> pod: a server that closes first
//
// A server that closes first keeps the client's address and port in TIME-WAIT for a minute,
// while the client may use its port again immediately. So it is the node that decides by which
// port the server sees the next connection: one that it has in TIME-WAIT for another one, or
// not. docs/reports/masquerade.md has the figures.
//
// The tests have kube-vmap as the node's proxy.
package masquerade
