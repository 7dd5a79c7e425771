// Package security tests the claims of docs/security.md that need a kernel: what the
// author of a Service can and cannot do, what the proxy needs to run, where it listens,
// and what it changes on the node.
//
//	hostile manifests --> daemon on the node of a lab --> what can clients reach?
//	                                  |
//	                                  '--> what has it opened, written, changed?
//
// A claim that an attack is possible is a test, too: it fails when that is no longer so,
// and the document must be changed.
package security
