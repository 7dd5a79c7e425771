// Package resolve finds what the flags --from and --to of kubectl vmap explain name: pods,
// the pods of workloads, Services, nodes and addresses.
//
//	--from pod/shop/cart-7f9 ----> Client      address of each family, node --+
//	                                                                          +--> Packets
//	--to svc/shop/web:http ------> Destination ports; addresses per client  --+
//
// Everything is read from the API server, when it is asked for. An error names what exists
// instead, such as the ports of the Service, or the command that lists it.
package resolve
