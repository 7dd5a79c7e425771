// Package addresses follows the addresses of the node's interfaces, so that node ports
// are served on added addresses immediately, and no longer on removed ones.
//
//	kernel --RTM_NEWADDR, RTM_DELADDR--> wait until quiet --> list all --> changed? --> out
//	                                          ^                              |
//	                                          +------------------------------+
//
// See package rtnetlink for why no change is lost.
//
// An address is used, on whichever interface, if the node answers to it:
//
//   - It is not a loopback address (127.0.0.0/8, ::1), which only the node itself can
//     reach. Other addresses of the interface lo are used.
//   - It is not tentative or a duplicate (RFC 4862 5.4): the kernel does not answer to
//     those and does not let programs bind to them. A notification comes when one is
//     found to be unique. Optimistic addresses (RFC 4429) are used immediately.
//   - Deprecated addresses (RFC 4862 5.5.4) are used until they are removed: new
//     connections to them are still accepted.
package addresses
