// Package preflight is kube-vmap preflight: it finds out on a node, before kube-vmap is
// installed there, whether something prevents that. It changes nothing.
//
//	checks.go     kernel, memory, connection tracking, sysctls, API server
//	policy.go     chains that drop forwarded or incoming packets
//	mark.go       rules of others that change the mark's bit
//	proxy.go      which proxy runs in which mode, and whether taking over can be undone
//	known ones    package components; each has a row in docs/compatibility.md
//	      |
//	      v
//	[Report]: an [Item] for each, with a verdict
//
// A check that lacks a privilege gives an item with the verdict unknown, so that an
// incomplete report never looks complete.
package preflight
