// Package connections counts connections by Service port and endpoint, and cleans up
// the kernel's counters.
//
// The kernel counts by itself (see package nft): the set connections has an element
// with a counter for each pair of a destination and the endpoint that it was translated
// to. It knows neither Services nor that an endpoint is gone.
//
//	sync.Loop --Follow: commits------> frontends and endpoints of each Service port
//	                                                      |
//	/metrics --Totals----> read the set, if 1 s old    ---+--> totals by Service port and endpoint
//	                                                      |
//	every second --------> read it, if it was full     ---+--> make room
//	                                                      |
//	every two minutes ---> read it, find stale elements --+--> fold and delete, in one transaction
//
// Totals never decrease while the process runs: each read adds the growth of every
// pair. So it does no harm that a listing of a growing set may miss some pairs, nor
// that another program flushes the set.
//
// The set has a limit, and clients choose how many pairs of a Service they use. If a read
// finds it nearly full, namespaces with more than their fair share of half of it lose the
// elements of their largest frontends, which the kernel does not count for a while. Totals
// wait only briefly for a read, since that of a full set takes seconds.
//
// An element is stale if its endpoint no longer serves the Service. It is folded: its count is
// added to an element of the Service's former endpoints, which has zeros in place of the endpoint,
// and it is deleted. Elements of destinations that are no Service's, such as hostPorts that other
// programs translate, are deleted, too. Both happen only to what was stale two minutes before and
// ever since, so that no packet on its way is about to be counted there. (If an endpoint comes back
// between the read and the transaction, a few of its connections may be lost.)
//
// An address and port that moves from one Service port to another keeps its elements.
// So those of an address and port that a Service port has lost are deleted with the next read, which
// is immediate if another has it, and connections between the change and that are not
// counted. Moves while no process runs go unnoticed: the next process adds the counts to
// the Service port that has the address and port then.
package connections
