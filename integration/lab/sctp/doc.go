// Package sctp implements as much of SCTP (RFC 9260) as a question and its answer
// need, over raw IP sockets, so that SCTP can be tested on kernels without SCTP
// sockets. Connection tracking and NAT see a real association: checksums, tags and the
// order of the chunks are correct.
//
//	client                               server
//	INIT                          -->
//	                              <--    INIT ACK with a cookie, or ABORT
//	COOKIE ECHO, DATA (question)  -->
//	                              <--    COOKIE ACK, SACK, DATA (answer)
//	DATA (question)               -->                              any number
//	                              <--    SACK, DATA (answer)       of times
//	ABORT                         -->
//
// A client ends with ABORT: one packet, nothing to wait for, and connection
// tracking closes its entry as it does after a shutdown.
//
// A server whose port is closed, or that does not know the association, answers
// with ABORT as well, which the client treats as a refusal or a reset.
//
// Not implemented: retransmission (a lost packet is a question without an answer),
// fragmentation, multiple streams, heartbeats, shutdown, and servers without state before the
// cookie, because all hosts of a lab are trusted.
//
// Packets and the server's state machine do no I/O; [Conn] and [Listener] do.
package sctp
