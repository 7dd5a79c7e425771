// Package passivehealth finds endpoints that are unresponsive, from the connections of this node's
// clients (passive health checks). With [model.PassiveChecksAvoid] such endpoints get no new
// connections until they reply again.
//
// A node that loses power keeps its pods ready in the API for 40 seconds or more, and a pod that
// hangs without a readiness probe stays ready. Until then one connection of n would wait for a
// timeout.
//
//	nft counter "unanswered" --moved--> connection tracking --reading--> checks ----> model.UnresponsiveEndpoints
//	 (retransmitted first                (readings.go)                   (check.go,        |
//	  packets)                                                            checks.go)       v
//	                                                                probe |      ^     sync.Loop
//	                                                                      v      | reply   |
//	         sync.Loop --Follow--> pools (pools.go)                     probe.go           v
//	                                                              (half-open TCP)     sets, shares
//
// # Observations
//
// Anybody can make a connection without a reply, and most network policies drop packets from a
// node. So something only counts if it is known to have worked:
//
//   - A connection without a reply counts if its client is a witness: connection tracking has
//     another connection of this client to the same Service port, with a reply. Clients that a
//     policy denies have none.
//   - A probe without a reply counts if an earlier one of the same endpoint had a reply. Endpoints
//     of Service ports in use are probed for that, when they join and later, if there is another.
//   - Both count only while other endpoints reply: a probe of another endpoint of the same Service
//     port, the control, must have had a reply since the check began, and in each round after it.
//     Without that, this node or a policy may be the cause.
//
// An endpoint is unresponsive if two probes within a second had no reply, the probes and a control
// count, a witness waits for it meanwhile, and no connection to it had a reply. For one minute it
// is enough that a witness waits for an unresponsive endpoint in the same subnet, which is often
// the subnet of a node. A check begins with any connection without a reply; with a routine probe
// that has none; and if the check of an endpoint in the same subnet found no reply to a first
// probe.
//
// If probes do not count, an endpoint is possibly unresponsive: two witnesses get no reply, or one
// if probes worked before but no control replies. It is reported as such, and nothing is avoided.
// docs/design.md says why.
//
// # What follows
//
// Package model decides which endpoints are avoided: those with the most witnesses first, never more
// than a part of a Service's endpoints, and never the last one. An unresponsive endpoint is probed
// every second, after a minute every five. A reply to a probe or a connection releases it. It then
// stays in use for five seconds, which double up to a minute while it flaps.
//
// # Cost
//
// Which Service ports are in use is known from the counters of connections (every two seconds, 0.05 %)
// and, for those that stay open, from connection tracking.
//
// Each protocol and family is read by itself, the cheapest first, and takes 0.4 % of one processor's
// time while its connections may count, otherwise 0.025 %, over UDP twice that. A walk of a large
// hash table takes 10 ms and more, so UDP would be read once a minute for that. It is read every 25
// seconds, within the 0.4 %. Probes are bounded for each node, and namespaces take turns.
package passivehealth
