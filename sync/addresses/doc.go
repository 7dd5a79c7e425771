// Package addresses follows the addresses of the node's interfaces, so that node
// ports answer on one that was added a moment ago, and no longer on one that is
// gone.
//
//	kernel --RTM_NEWADDR, RTM_DELADDR--> wait for quiet --> list all --> differs? --> out
//	                                          ^                             |
//	                                          +-----------------------------+
//
// What a notice says is not read. It only means that it is time to list, and
// so nothing can be lost with one: not before the first list, which comes after
// the subscription; not in an overflow of the socket, which is one more notice;
// not when the socket breaks, because a new one begins with a list.
//
// An address counts if the node answers to it, whichever interface has it:
//
//   - not in the loopback range: 127.0.0.0/8 and ::1 reach nobody but the node
//     itself, and routing will not let what is sent there be sent on. Other
//     addresses of the interface lo are the node's like any;
//   - not tentative, nor found to be a duplicate (RFC 4862 5.4): the kernel does
//     not answer to those, and nobody can listen there. A notice comes when one is
//     found to be unique. One that is optimistic (RFC 4429) is in use at once;
//   - deprecated ones too (RFC 4862 5.5.4): new connections to them are served
//     until they are invalid, and then they are gone.
package addresses
