// Package schedulers holds the tests about how an endpoint is chosen for a
// connection: at random, in turn, by the client's address, or by Maglev's table.
//
//	annotation of the Service, or --ipvs-scheduler
//	      |
//	      v
//	   random   every endpoint has the same chance
//	   rr       one after the other
//	   sh       one client, one endpoint
//	   mh       one flow, one endpoint, on every node; few move with changes
//
// What the last one promises is worked out by the model's own table; here it is
// held against what connections meet.
package schedulers
