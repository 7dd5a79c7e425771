// Package counters compares the counts of connections with those that were made: pods,
// the node and a host outside connect to every kind of address, over all protocols and
// both families, while Services are scaled, endpoints are removed, and the proxy
// restarts.
//
//	clients --request--> Services --> endpoints, which respond with their names
//	   |                                 |
//	   +--- responses -------------------+---> ledger == what the kernel counted
//
// Needs root.
package counters
