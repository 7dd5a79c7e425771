// Package nodestatus has the status of a node's proxy as a [Document] for people and programs:
// what it programs, its connections and its problems, and what follows from a document
// alone, such as the states of Services.
//
//	loop snapshot -+
//	conntrack      +--nodestatus/build--> Document --nodestatus/client--> get, top, explain, page
//	kernel --------+
//
// The document uses the words of the Service API: ClusterIP, Local, IPv4. Programs on other
// machines and platforms read documents, too, so this package imports nothing of the node.
package nodestatus
