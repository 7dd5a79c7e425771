// Package simulator runs the simulation of package simulate with what the kernel of one
// network namespace holds: the rules of nf_tables, the node's routes, and its connections. It
// only reads.
package simulator
