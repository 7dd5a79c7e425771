// Package rtnetlink opens sockets of rtnetlink. A [Network] answers which way packets go: the route
// to an address, whether an address is the node's own, which source masquerade selects. A
// [Follower] follows the interfaces or addresses of a network namespace:
//
//	Follow --> List --> use it --> Wait for a notification, until quiet
//	             ^                                  |
//	             +----------------------------------+
//
// The content of notifications is not used; each only causes a list. So no change is lost: not
// before the first list, which comes after the subscription; not when the socket overflows,
// which is another notification; and not when the socket breaks, because a new [Follower]
// starts with a list.
package rtnetlink
