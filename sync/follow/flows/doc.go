// Package flows deletes stale entries of connection tracking. A flow keeps the endpoint
// that was chosen for its first packet for as long as packets arrive, even if the
// endpoint was removed. TCP and SCTP then time out or are reset and connect again, but a
// UDP sender that expects no reply would send to a removed endpoint forever.
//
//	sync.Loop --Follow: commits--> queue
//	                                 | Run applies them; unfinished work stays pending
//	                                 v
//	   entry: original destination, reply source --> stale? --no--> kept
//	                                                   |
//	                                                  yes --> deleted
//
// An entry is stale if its original destination is a frontend whose endpoints have changed, and its
// reply source is not one of the frontend's [model.Pool] FlowEndpoints: an endpoint that was removed or
// has another port, or the service address itself, where the flow began before the rules existed, or
// its first packet was between two hooks when the first endpoint was added.
// If a frontend was removed or has no endpoint, all its entries are stale; the sender's next
// packet is then rejected. TCP and SCTP entries are only stale, unless TCP should end, if no
// endpoint could reply: the flow began at a load balancer's address before the rules existed. Those
// without a reply are also stale if the Service holds connections, or retries them, and their
// endpoint does not serve: the client's next packet reaches another one, or waits.
// Other entries are not touched: neither entries of the same port at an address that is not ours,
// nor flows from a service address. A stale entry is deleted a second after the change, when replies to
// earlier packets have arrived.
//
// Stale entries are checked again, with the latest commits, before they are deleted: an
// endpoint may have been added meanwhile.
package flows
