// Package affinity makes clients with session affinity forget removed endpoints.
//
// The kernel itself records which client has which endpoint: an element of the map
// affinity for each, with a timeout (see package nft). But it does not know when an
// endpoint is removed. The transaction that removes one prevents new clients from being
// assigned to it; then a [Pruner] deletes the elements of those that were.
//
//	                                 +--------------------------+
//	commit without the endpoint ---> | list the map affinity,   | ---> clients choose
//	                                 | delete stale elements    |      another endpoint
//	                                 +--------------------------+
//
// It runs on its own goroutine with its own socket. The cost depends on the size of the
// map, not on how many endpoints were removed.
package affinity
