// Package counters checks numbers of connections against those that were made:
// pods, the node and a host outside connect by every kind of address, over all
// protocols and both families, while Services are scaled, endpoints go, and the
// proxy is started again.
//
//	clients --ask--> Services --> endpoints, who say their names
//	   |                              |
//	   +--- what they were told ------+---> ledger == what the kernel counted
//
// Needs root.
package counters
