// Package affinity makes clients forget endpoints that are gone.
//
// The kernel remembers by itself which client has which endpoint: an element of
// the map affinity for each, with a timeout (see package nft). What it cannot
// know is that an endpoint is gone. The transaction that removes an endpoint takes
// it from those that are picked, so that from then on no client is newly given to
// it; then the map is searched for those who were.
//
//	                                  +--------------------+
//	endpoint gone -> taken by the --> | list map affinity, | --> clients choose anew
//	                 kernel           | delete what is not |
//	                                  | an endpoint now    |
//	                                  +--------------------+
//
// That is done beside the loop, over a socket of its own, and costs what the map
// is large, however many endpoints went.
package affinity
