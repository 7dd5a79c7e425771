// Package cluster is the source that reads the Kubernetes API.
//
//	Services        list, watch     +-------------+
//	EndpointSlices ---------------> | store,      |  events   +---------+  bursts
//	ServiceCIDRs    each object is  | one of each | --------> | pending | -------> loop
//	the own Node    reduced on      | kind        |           +---------+
//	                arrival         +-------------+
//
// Reflectors of client-go do the watching: streamed lists where the server has
// them, pages where not, and all that is to be done when the server goes away,
// restarts or has compacted what it would have to tell. What they feed is not a
// cache of objects. An object becomes an item as soon as it is decoded: the event
// that tells the loop of it, nothing of the API object. A store remembers of an
// item its name and a hash of what it meant, by which it knows what is news, and
// what is gone when a list no longer has it.
//
// Events wait in one place until the loop takes them, at most one for each
// object: whatever the loop is busy with, what waits is bounded by the cluster's
// size, and a lone event waits for nothing. The first burst is sent when all
// kinds are complete and the node is known.
//
// # When the API server is away
//
// What was told stays. A watch that ends well is taken up where it ended at once;
// after an error, each kind is asked for again after 0.8 to 20 seconds, at random.
// The library's default ends at 60, and counts twice when a server that comes back
// has forgotten where a watch was: for two minutes after an outage, a node might
// have stale endpoints. Nor would longer waits spare such a server much: what
// costs is what it sends, which is the same however long all have waited, and what
// they must not do is ask at the same moment.
//
// The log tells of an outage once, and of its end, and so it does when watches end
// as soon as they begin, again and again.
//
// A server that has only just started refuses everything (403) until it has read
// who may do what. That ServiceCIDRs are not to be seen, which the source can do
// without, is therefore believed only after 15 seconds of refusals.
//
// A connection that died without a word is noticed by client-go's HTTP/2 health
// check, which sends a ping after 30 idle seconds and waits 15 for the answer
// (HTTP2_READ_IDLE_TIMEOUT_SECONDS and HTTP2_PING_TIMEOUT_SECONDS change that);
// without HTTP/2, by TCP keep-alives every 30 seconds, in about five minutes.
//
// # When the Node object is away
//
// The machine is still there, and so are its address, zone and pods: they stay as
// they were last known, so that rules do not change when somebody deletes a Node
// and its kubelet registers it again. Only load balancers are told to look
// elsewhere, because that is what deleting the object says.
package cluster
