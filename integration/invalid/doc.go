// Package invalid tests packets that connection tracking considers invalid.
//
//	client --> ClusterIP --> server
//	client <-- ClusterIP <-- server    a packet of the connection
//	client <---------------- server    an invalid one: it is not translated
//	client ----------------> server    so the client, which has no connection to that
//	                                   server, resets, and the server's connection ends
//
// This is kubernetes/kubernetes issue 74839. Here the server sends such packets by a raw
// socket, among those of its connection: TCP segments with sequence numbers beyond the
// window.
package invalid
