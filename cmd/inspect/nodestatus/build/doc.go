// Package build builds the [status.Document] of a node.
//
//	loop snapshot --FromSnapshot--+
//	kernel tables --FromTables----+--> Document
//	counters, conntrack --Count---+
//
// [New] is the source of the running process, which answers on its status socket.
package build
