// Package status has the status of a node's proxy as a [Document] for people and programs:
// what it programs, its connections and its problems. The running process builds it from
// its state and serves it on its status socket; [FromTables] builds one from the kernel,
// if no process runs.
//
//	loop snapshot -+
//	conntrack      +--> Document --JSON over the status socket--> get, top, explain, page
//	kernel --------+
//
// [Client] reads the socket, which also serves texts; see [PathRules] and the other paths.
// The document uses the words of the Service API: ClusterIP, Local, IPv4.
package status
