// Package affinity holds the tests about session affinity: that a client keeps
// its endpoint, and for how long, as real clients see it.
//
//	client A --- ClusterIP ----+
//	client A --- node port ----+---> the endpoint that A got first
//	client A --- external IP --+
//	client B --- ClusterIP --------> the one that B got first
//
// A client is an address; the host outside has many. What it keeps belongs to a
// port of a Service, by whichever of the Service's addresses it asks, for as long
// as the endpoint is there and until it has made no new connection for the time
// that the Service says.
package affinity
