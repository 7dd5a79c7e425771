// Package ruletext prints any rule of nf_tables in the syntax of nft.
//
// A rule is a list of expressions that pass values to each other in registers. [Decode]
// interprets them with text in place of values:
//
//	payload load 4b @ network header + 16 => reg 1     reg 1 = "ip daddr"
//	cmp eq reg 1 0x0a60000a                             ip daddr 10.96.0.10
//	immediate reg 0 drop                                drop
//
// For our own rules the result is what nft lists, except for the elements of anonymous maps,
// which are in another message. For rules of other programs it is enough to find them:
// unknown expressions appear by their name, and the matches and targets of iptables, which
// nft cannot print either, by name and comment.
package ruletext
