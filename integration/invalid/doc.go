// Package invalid holds the tests about packets that connection tracking takes
// for no part of their connection.
//
//	client --> ClusterIP --> server
//	client <-- ClusterIP <-- server    a packet of the connection
//	client <---------------- server    one that is invalid: nobody translates it
//	client ----------------> server    so the client, who knows no such server,
//	                                   resets, and the server's connection ends
//
// That is kubernetes/kubernetes 74839. The server here sends such packets by a
// raw socket, among those of its connection: TCP segments with numbers that are
// out of the window. What the kernel does with them is tried without a proxy
// first, with a translation by one plain rule, so that a change of kernels shows
// as one.
package invalid
