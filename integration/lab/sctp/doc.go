// Package sctp speaks as much SCTP (RFC 9260) as one question and its answer
// need, over raw IP sockets, so that SCTP can be tested on machines whose
// kernel has no SCTP sockets. Connection tracking and NAT see a real
// association: checksums, tags and the order of the chunks are what they are
// in life.
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
// with ABORT as well; its client takes that for a refusal or a reset.
//
// What is left out: retransmission (a lost packet is a question without an
// answer), fragmentation, several streams, heartbeats, shutdown, and the
// signature of the cookie, because everybody here is trusted.
//
// Packets and chunks ([Packet], [Init], [Data]) and what a server answers
// ([Responder]) are values and functions of values; [Conn] and [Listener] are
// the I/O.
package sctp
