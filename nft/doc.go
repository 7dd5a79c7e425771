// Package nft is the rule set: what tables, chains, sets and elements serve a list of
// frontends, and which changes lead from one state to another. It knows nftables, not
// Kubernetes, and does no I/O.
//
//	model.Frontend --compile--> elements --diff--> Batch --wire.Encode--> bytes
//	                 (slots)                         \-----String-----> nft commands
//
// There is one table of the same shape in each family, and one law: no chain, set or rule
// per Service or endpoint. A Service is elements of shared maps.
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
// There is a chain lb-N for each number of slots in use, and a chain ep-K with its map
// endpoints-K for each slot; all Services with N slots share them. An endpoint has one
// slot, or several if it is to get a larger share of the connections. So a replaced
// endpoint is one element deleted and one added in a map of plain data, for which the
// kernel need not check anything else. A packet to another address of the Service is first
// given its ClusterIP as destination (rules_rewrite.go), so that all addresses of a Service
// share these elements, too.
//
// [Ruleset] is the current state. [Ruleset.Plan] returns the [Batch] that leads to another
// one, and only [Ruleset.Commit], after the kernel accepted the batch, makes that the
// current state. [Adopt] begins: it compares the state with what the kernel holds
// ([Tables]), and endpoints keep the slots that they have there.
//
// The files, in the order of the data:
//
//	family, chains, sets, layout   the schema: every chain with its hook, every set with its key
//	config, rules, rules_*         the rules of each chain; statement* and pick build them
//	names                          names of chains and sets, and back
//	element, compile, own          a frontend as elements
//	elementref                     elements that are made when they are encoded
//	slots, spread                  endpoints keep their slots, as many as they have shares
//	numbers                        the numbers of endpoints of which clients are remembered
//	ruleset, plan, grow            the state, a change of it, sets that are too small
//	frontends, collect             the whole state, in order; its elements
//	tables, diff                   the same, compared with what the kernel holds
//	references                     which chains and sets are in use
//	edit, batch, steps             a batch in the order that the kernel accepts, and divided
//	installed                      the rule set read back as frontends
//	text_*                         batch, rule set, tables and differences as nft text
//
// The text is here and not in a package of its own, because a statement is made as text and
// expressions side by side. The netlink form is in kube-vmap/nft/wire, the socket in
// kube-vmap/nft/kernel.
package nft
