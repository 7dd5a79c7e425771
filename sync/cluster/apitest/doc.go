// Package apitest is as much of an API server, in memory, as a source needs: it
// lists, in pages, and watches, with streamed lists and bookmarks, Services,
// EndpointSlices, ServiceCIDRs and Nodes, and takes events, in protobuf or JSON.
//
//	Put, Delete --> objects --> history --> watches
//	                   |
//	                   +------> lists
//
// What can happen to a server can happen to it: it refuses, cuts its connections,
// forgets its history, does not have a kind, is older than streamed lists.
//
// It is an [http.Handler] for a listener, and an [http.RoundTripper] for a client
// that is to do without a network, as tests in a bubble of testing/synctest are.
package apitest
