// Package passivehealth finds endpoints that do not answer, from the connections of this node's
// clients (passive health checks). With [model.PassiveChecksAvoid] such endpoints get no new
// connections until they answer again.
//
// A node that loses power keeps its pods ready in the API for 40 seconds or more, and a pod that
// hangs without a readiness probe stays ready. Until then one connection of n would wait for a
// time-out. First packets of connections pass two matches for this, others nothing:
//
//	nft counter "unanswered" --moved--> connection tracking --> checks ------> model.UnresponsiveEndpoints
//	 (retransmitted first                (entries without a      (checks.go)          |
//	  packets)                            reply, by endpoint)     |      ^            v
//	                                                     question |      | answer   sync.Loop
//	                                                              v      |            |
//	         sync.Loop --Follow--> pools (pools.go)               asker.go            v
//	                                                         (TCP connects)     sets, shares
//
// # When an endpoint is unresponsive
//
// Only if all of this is true:
//
//   - A connection to it has had no answer for a second.
//   - It answered none of two questions within a second. A question is a TCP connect from the
//     node; any answer counts, a reset included. So neither an endpoint that rejects one client
//     nor one to which forged packets are sent is affected.
//   - No other connection to it was answered meanwhile. That happens where a policy drops the
//     node's questions.
//   - Over UDP, it has answered a connection that was still tracked. One-way protocols never do.
//   - Most of the other nodes that were asked answer. Otherwise this node is the one without a
//     network, and nothing is avoided.
//   - The table of connection tracking has room. Without it, questions are dropped here.
//
// If two endpoints of different Services on one node answer no question, the node itself is
// asked, at the addresses of its Node object. If it does not answer either, all its endpoints are
// unresponsive together.
//
// # What follows
//
// Package model decides what is avoided: never more than a part of a Service's endpoints, and
// never the last one. An endpoint is asked every second, after a minute every five, and used
// again with the first answer. One that has never answered a question is used again after a
// minute, or later if connection tracking costs so much to read that a decision would take long,
// and then connections decide again. An endpoint that is used again stays so for at
// least five seconds, doubling while it flaps.
//
// # Cost
//
// While the counter does not move, connection tracking is read for 0.04 % of one processor's time,
// otherwise for 0.4 %, with bursts. Questions are at most 50 a second, which namespaces share.
package passivehealth
