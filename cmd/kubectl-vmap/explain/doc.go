// Package explain is kubectl vmap explain: what would happen to a packet on its whole way
// through the cluster, there and back.
//
//	--from, --to --> resolve --> Packets --+--> explain on the client's node ----+
//	                                       |        its endpoints                |
//	                                       |        v                            +--> Report
//	                                       +--> explain on the endpoints' nodes -+
//	API server: Service, EndpointSlices, pods --> names, differences, causes ----+
//
// Each node answers for its own rules, by kube-vmap explain. The report joins the answers:
// a packet arrives if it does on every node of its way, and so does the reply. It names
// pods and Services next to addresses, and the field of an object that causes what is found.
// A node that does not answer is named, and the rest is still reported.
package explain
