// Package get prints what a node programs, as kubectl prints objects.
//
//	status socket ---> Document ---> rows of a resource ---> those selected ---> table, JSON, YAML, names
//	kernel's tables ------'
//
// A [resource] is a way to look at the same document: its Services, their endpoints
// or their frontends. Only how rows are made is its own; selecting and printing are
// the same for all. Flags and messages are kubectl's where it has them.
package get
