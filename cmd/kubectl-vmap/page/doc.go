// Package page is the status page of a whole cluster, which the plugin serves to the
// browser of the person who started it.
//
//	browser --> 127.0.0.1:PORT/TOKEN/ --> Handler --> live.Cluster --exec--> nodes
//	                                         |
//	                                         `-------> Config.Explain --exec--> nodes
//
// It listens on 127.0.0.1 only. Other users of the same machine can connect to that, too,
// and what the page shows and asks is done with the rights of the person who started it:
// so every path begins with a token that only the printed URL has. It is not a cookie,
// since browsers send cookies of 127.0.0.1 to the servers of all ports. kubectl proxy has
// no token, so anyone on the machine can use it.
//
// Other web sites cannot read it through the browser: they do not know the token, the Host
// header must be loopback (see web.Hosts), and requests of other origins are refused.
//
//	app.js      routes, polling             map.js    nodes, and Services on nodes
//	strip.js    a Service on all nodes      nodes.js  cards or tiles of nodes
//	service.js  one Service                 flows.js  from which nodes to which
//	way.js      the form and its answer     there.js  the way of a packet, drawn
package page
