// Package status is what a node's proxy programs, in the form in which people and
// programs ask for it: one [Document], which the running process makes of its own
// state, and which can also be made of what the kernel holds while no process
// runs.
//
//	Loop state ----+
//	conntrack      +--> Document --JSON over the status socket--> get, top, explain, page
//	kernel --------+
//
// The words in it are those of the Service API: ClusterIP, Local, IPv4.
package status
