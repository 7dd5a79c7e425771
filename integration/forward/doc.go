// Package forward is a trial, not a part of kube-vmap: a node that gets a packet to a
// Service from outside forwards it unchanged to the node of an endpoint, over the link
// that they share, and that node serves it as under externalTrafficPolicy: Local.
//
//	                 client 198.18.0.1
//	                        |
//	               router (host outside)         a route to each node, one in use
//	                        |
//	    +-------------------+-------------------+   one link
//	    |                   |                   |
//	 node-1 --- fwd ---> node-2              node-3
//	no endpoint             |                   |
//	                    remote-1, -2        third-1, -2
//
// All nodes run kube-vmap with the same Service. The trial adds one table of family netdev
// to each: it picks a slot of Maglev's table by the hash of client and port, as scheduler
// mh does, and a map leads from the slot to the node that has the endpoint. The client's
// address stays, and the reply goes straight from the endpoint's node to the router.
//
// The tests show what works with nft alone and what does not. docs/design.md has the
// conclusions.
package forward
