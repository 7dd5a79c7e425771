// Package cluster reads Services, EndpointSlices, ServiceCIDRs and the proxy's own Node
// from the Kubernetes API, and writes events to it.
//
//	API server --list, watch--> codec --> reflector --> store --events--> eventQueue --bursts--> loop
//	                    (decode, convert) (client-go)   (one for each kind)
//
// Reflectors of client-go do the listing and watching: lists that are streamed where
// the server supports it, else read in pages, and recovery when the server is
// unavailable, restarts or has compacted its history.
//
// What differs from informers, to take less memory and CPU: Services and EndpointSlices are decoded
// by package protobuf, which skips what the proxy does not read, and are converted one by one while
// a list arrives, each in the memory of the one before (codec.go). A store keeps only each object's
// name and a hash of its content, by which it sees which updates change something and, after a
// list, which objects are gone. An informer would keep every API object, and its delta queue and
// event handlers would hold further copies.
//
// Events wait in one queue until the loop takes them, at most one for each object, so
// the queue is bounded by the size of the cluster. A single event is not delayed. The
// first burst is sent when the lists of all kinds are complete and the node is known.
//
// # When the API server is unavailable
//
// All requests end in resourceclient.go, which also handles resources
// that may be missing; outages.go logs failures.
//
// The last known objects stay. A watch that ended without an error is resumed immediately. After an
// error, each kind is requested again after a random 0.8 to 20 seconds. The delays of client-go's
// informers grow to 60 seconds, and double when the server has lost its watch history: a node might
// have stale endpoints for two minutes after an outage. Longer delays would hardly spare the
// server, since its cost is in what it sends; the delays must only be spread.
//
// Client-go logs each failed request. Here its lines have the debug level. An outage and its
// end are logged once; so are watches that repeatedly end right after they began.
//
// A server that has just started answers every request with 403 until it has loaded
// its RBAC objects. So 403 for ServiceCIDRs, which the source can do without, counts
// only when it lasts for 15 seconds.
//
// A dead connection is noticed by client-go's HTTP/2 health check: a ping after 30 idle seconds,
// with 15 seconds for the answer (HTTP2_READ_IDLE_TIMEOUT_SECONDS and HTTP2_PING_TIMEOUT_SECONDS
// change that). Without HTTP/2, TCP keep-alives every 30 seconds notice it in about five minutes.
//
// # When the Node object is deleted
//
// The machine and its address, zone and pods still exist, so the last known values
// stay, and the rules do not change while a Node is deleted and registered again. Only
// the health check for load balancers fails, as intended by the deletion.
package cluster
