// Package explain is the command that explains what would happen to a packet.
//
//	--from, --to --> Packet --> simulation of the kernel's rules --+
//	                                                               +--> Answer --> text, JSON, YAML
//	status socket --> what only the running process knows ---------+
//
// The kernel alone decides the answer. The process, if it answers, adds hints that the
// kernel does not have: why endpoints are not used, problems of objects, and which ports
// an address has.
package explain
