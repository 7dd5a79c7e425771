// Package status is kubectl vmap status: one line for each node, the problems first.
//
//	API server --versions of objects--> lag.go ---+
//	nodes -------health, or an error----> row.go -+-> table.go
//
// A node lags if the API server had objects, before the node was asked, that are newer than
// what the node has seen. Resource versions of a resource are comparable (KEP-5504).
package status
