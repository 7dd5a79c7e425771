// Package node prepares the node as kube-proxy does: the size of the connection
// tracking table and its timeouts, and how the kernel treats the process when
// memory runs out.
//
// A sysctl is read first and written only if it differs, so that a process which
// may not write, in a container with a read-only /proc/sys, gets along on a node
// that is set up already:
//
//	value found      can be written   cannot be written
//	as wanted        nothing to do    nothing to do
//	other            written          an error that says what to do, or a line in the log
//	a larger limit   written          left as it is
//
// Two limits belong to the whole machine: in a network namespace other than the
// first one nobody may write them, whatever the rights. That is where nodes of
// kind and of rootless clusters live. There they are left as they are, and a line
// in the log says so.
package node
