// Package connections tells how many connections there were to Services and to their
// endpoints, and keeps what the kernel counts in order.
//
// The kernel counts by itself (see package nft): an element of the set connections for
// each pair of what is asked for and the endpoint that is got. It knows neither
// Services nor that an endpoint is gone.
//
//	sync.Loop --- Follow: what the kernel has taken ---> whose address, which endpoints
//	                                                      |
//	/metrics ---Totals---> read the set, a second apart --+--> sums of Service ports and endpoints
//	                                                      |
//	every two minutes ---> read it, find what is stale ---+--> fold and delete, in one transaction
//
// Sums never fall while the process runs: each reading adds by how much every pair has
// grown. So it does not matter that a listing of a set which grows may miss some
// pairs, nor that somebody empties the set.
//
// An element is stale if its endpoint serves the Service no longer: its count is added
// to that of all the Service's former endpoints, an element with zeros in the place
// of the endpoint, and it goes. So does what nobody asks for any more, and what others
// had translated: hostPorts, for instance. That is done to what was stale two minutes
// before, too, and all the time in between. So no connection can be about to be counted.
// (Were an endpoint to come back between the reading and the transaction, and get
// connections, those few would not be counted.)
//
// An address and port that goes from one Service port to another keeps its elements.
// So they are deleted then, at once, and what comes between the change and that is
// not counted. Where no process runs meanwhile nobody can tell: the next one counts
// for the Service port that has the address and port now.
package connections
