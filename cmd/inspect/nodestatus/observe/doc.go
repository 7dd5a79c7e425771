// Package observe finds endpoints that refuse connections or do not answer, from what the
// kernel keeps anyway. Packets pay nothing for it, and nothing is kept between two requests.
//
//	tracked connections, counted connections
//	        | wait
//	counted connections, tracked connections --> []Response
//
// The kernel keeps no trace of a TCP connection that was answered with a reset: its entry
// is deleted with that packet (nf_conntrack_tcp_packet, "if only reply is a RST"). But the
// rules have counted it. So connections that were counted meanwhile, while no entry of the
// same frontend and endpoint is new, were refused. That needs counted connections, and finds
// what happens while it observes. The order of the reads makes sure that each counted
// connection has an entry, unless it is over.
//
// An aborted association of SCTP keeps its entry for ten seconds, in state CLOSED. Over UDP,
// a refusal is an ICMP error, which the entry does not show: refusal and silence are both
// an entry without a reply, for 30 seconds. Connections of TCP without any answer stay in
// SYN_SENT for two minutes. What has no reply counts if its entry existed before.
package observe
