// Package status asks the built kube-vmap what it programs, as a user does: with
// kube-vmap get, in the network namespace of a node, beside the daemon and after its
// end.
//
//	Folder --> daemon --> kernel
//	             |           |
//	 get --socket'           '-- get, when there is no daemon
//
// What both say must be the same as far as the kernel can know it, and what is
// counted as many as were made.
package status
