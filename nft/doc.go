// Package nft turns frontends into what nftables holds, and the difference
// between two states into one batch. It knows tables, not Kubernetes, and does
// no I/O; the socket is in the kernel half, package kube-vmap/nft/kernel.
//
//	model.Frontend --compile--> elements --diff--> Batch --encode--> bytes
//	                 (slots)                         \-----text----> nft commands
//
// There is one table of the same shape in each family, and in it the law: no
// chain, set or rule per Service or endpoint. A Service is elements of shared
// maps. Only an endpoint that remembers its clients has a chain (affinity.go).
//
//	map services     { ip daddr . meta l4proto . th dport : verdict }
//	                 10.96.0.10 . udp . 53 : goto cluster-3
//	chain cluster-3  ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x4000
//	                 goto lb-3
//	chain lb-3       numgen random mod 3 vmap { 0 : goto ep-0, 1 : goto ep-1, 2 : goto ep-2 }
//	chain ep-1       meta l4proto != icmp dnat ip to
//	                 ip daddr . meta l4proto . th dport map @endpoints-1
//	map endpoints-1  10.96.0.10 . udp . 53 : 10.244.0.7 . 53
//
// Chain lb-N stands once for each number of endpoints in use, chain ep-K with
// its map endpoints-K once for each slot; every Service with N endpoints shares
// them. So a replaced endpoint is one element deleted and one added in a map of
// plain data, which the kernel takes without looking at anything else. A packet to
// another address of the Service is first given its ClusterIP as destination
// (rewrite.go), so that they share these elements, too.
//
// [Ruleset] is the state as it stands; [Ruleset.Plan] says which [Batch] leads
// to another one, and only [Ruleset.Commit], after the kernel took the batch,
// makes that the state.
package nft
