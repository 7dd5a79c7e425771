// Package flows deletes stale entries of connection tracking. A flow keeps the endpoint
// that was chosen for its first packet for as long as packets come, even if the endpoint
// is gone. TCP and SCTP then time out or are reset and connect again, but a UDP sender
// that expects no reply would send to a removed endpoint forever.
//
//	sync.Loop --Follow: commits--> queue
//	                                 | Run applies them; unfinished work stays pending
//	                                 v
//	   entry: original destination, reply source --> stale? --no--> kept
//	                                                   |
//	                                                  yes --> deleted
//
// An entry is stale if its original destination is a frontend that has changed, and its reply
// source is none of the frontend's [model.Pool] FlowEndpoints: an endpoint that is gone or has
// another port, or the service address itself, where the flow began before there were rules. If a
// frontend is gone or has no endpoint, all its entries are stale; the sender's next packet is then
// rejected. Of TCP and SCTP only those are, unless TCP should end, that no endpoint could answer:
// the flow began at a load balancer's address before there were rules. No other entries are
// touched: not those of the same port at an address that is not ours, nor flows from a service
// address, nor those of frontends that only gained endpoints. It is deleted a second after the
// change, so that answers to what was sent before arrive.
//
// Stale entries are checked again, with the latest commits, before they are deleted: an
// endpoint may have been added meanwhile.
package flows
