// Package ruletext says in nft's words what a rule does, anybody's, as the kernel
// holds it.
//
// A rule is a list of expressions that hand values to each other in registers.
// [Decode] follows them with texts in place of values:
//
//	payload load 4b @ network header + 16 => reg 1     reg 1 = "ip daddr"
//	cmp eq reg 1 0x0a60000a                             ip daddr 10.96.0.10
//	immediate reg 0 drop                                drop
//
// What it makes of our own rules is what nft lists for them, but for the
// elements of anonymous maps, which another message holds. Of other programs'
// rules it says as much as helps to find them: expressions that it does not know
// appear by their name, and of iptables' own matches and targets, which nft
// cannot read either, name and comment.
package ruletext
