// Package node prepares the node as kube-proxy does: the size of the connection tracking
// table and its timeouts, and how the kernel treats the process when memory runs out. It
// also opens the kernel, and checks what it supports.
//
// A sysctl is written only if it differs, so that a process that may not write, in a
// container with a read-only /proc/sys, works on a node that is set up already:
//
//	value found      writable         not writable
//	as wanted        nothing to do    nothing to do
//	other            written          an error with the remedy, or a line in the log
//	a larger limit   written          left as it is
//
// Two limits belong to the whole machine: no process in another network namespace than the
// first may write them, as on nodes of kind and of rootless clusters. There they are left
// as they are, with a line in the log.
package node
