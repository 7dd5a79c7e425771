// Package status runs kube-vmap get, in the network namespace of a node, beside the daemon
// and after its end.
//
//	Folder --> daemon --> kernel
//	             |           |
//	 get --socket'           '-- get, without a daemon
//
// Both must agree as far as the kernel knows, and count as many connections as were made.
package status
