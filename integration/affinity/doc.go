// Package affinity tests session affinity with real clients: that a client keeps its
// endpoint, and for how long.
//
//	client A --- ClusterIP ----+
//	client A --- node port ----+---> the endpoint that A got first
//	client A --- external IP --+
//	client B --- ClusterIP --------> the endpoint that B got first
//
// A client is an address; the host outside has many. Affinity is per port of a Service,
// on all the Service's addresses, for as long as the endpoint exists and until the client
// has made no new connection for the Service's timeout.
package affinity
