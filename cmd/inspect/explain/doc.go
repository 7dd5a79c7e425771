// Package explain is the command that says what would happen to a packet.
//
//	--from, --to --> Packet --> walk through what the kernel holds --+
//	                                                                 +--> Answer --> text, JSON, YAML
//	status socket --> what only the running process knows -----------+
//
// The kernel decides what the answer is. The process, if one answers, adds what the
// kernel does not know: why endpoints are not used, what is wrong with objects,
// which ports an address does have.
package explain
