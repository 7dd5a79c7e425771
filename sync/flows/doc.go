// Package flows ends flows that lead nowhere. A flow keeps the endpoint that was
// chosen for its first packet for as long as packets come, also when the endpoint
// is gone; TCP and SCTP then time out or are reset and begin anew, but a UDP
// sender talks on into nothing, and one that expects no answer forever.
//
//	sync.Loop --- Follow: what the kernel has taken ---> news
//	                                                      | Run takes them in, and
//	                                                      v what is not done yet waits
//	   entry: original destination, reply source ---> stale? --- no ---> left alone
//	                                                      |
//	                                                     yes ---> deleted
//
// An entry is stale if its original destination is a frontend that has changed,
// and its reply source is none of the frontend's [model.Pool] Flows: an endpoint
// that is gone or has another port, or the service address itself, where the
// flow began before there were rules for it. Of a frontend that is gone, or has no
// endpoint, every entry is; the sender's next packet is then refused. No other
// entry is touched: neither of the same port at an address that is not ours, nor
// flows from a service address, nor those of frontends that only got more
// endpoints.
//
// What is stale is judged once more, by the latest news, before it is deleted:
// an endpoint may have come meanwhile.
package flows
