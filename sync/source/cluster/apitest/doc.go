// Package apitest is an API server in memory, for tests of sources. It lists
// and watches, with streamed lists and bookmarks, Services, EndpointSlices, ServiceCIDRs
// and Nodes, and accepts events, in protobuf or JSON.
//
//	Put, Delete --> objects --> history --> watches
//	                   |
//	                   +------> lists
//
// It can also fail as a real server does: refuse requests, close connections, forget
// its history, lack a resource, or be too old to stream lists.
//
// It is an [http.Handler] for a listener, and an [http.RoundTripper] for clients without
// a network, as tests with testing/synctest need.
package apitest
