// Package schedulers tests how an endpoint is chosen for a connection: at random, in
// turn, by the client's address, or by Maglev's table.
//
//	annotation of the Service, or --ipvs-scheduler
//	      |
//	      v
//	   random   every endpoint has the same chance
//	   rr       one after the other
//	   sh       one client, one endpoint
//	   mh       one flow, one endpoint, on every node
//	   lc       the endpoint with the fewest connections
//
// Each of them honours weights: connections are counted for ten sets of weights, and endpoints
// of weight 0 keep their flows and get no new ones.
//
// Endpoints that start slowly are taken through their steps by the test, which counts connections at
// each.
//
// The tests of Maglev compute the table with package model, and compare it with the
// endpoints of connections.
package schedulers
