// Package security holds those claims of docs/security.md that take a kernel to
// show: what the author of a Service can do and cannot, what the proxy needs to
// run, where it listens, and what of the node it changes.
//
//	manifests, hostile ones --> daemon on the node of a lab --> what do clients reach?
//	                                     |
//	                                     '--> what has it opened, written, changed?
//
// A claim that somebody can do something is a test like any other: it fails on the
// day on which that is not so any more, and the document has to be changed.
package security
