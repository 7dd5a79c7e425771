// Package get is kube-vmap get: rows of Services, endpoints and frontends, with kubectl's
// arguments, flags and output formats.
//
//	arguments --> resource, names --+
//	                                +--> rows --selected, named--> table, names, JSON, YAML
//	source --status.Document--------+
//
// A source is the running process or, without one, the kernel's tables.
package get
