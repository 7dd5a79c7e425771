// Package inspect reads of nf_tables what one packet would meet: base chains, the
// rules of single chains, single elements of sets. What it costs does not grow with
// the rule set, but for the list of chains.
//
//	explain asks for            the kernel is asked for
//	base chains                 tables and chains (dump), their hooks
//	rules of a chain            rules of that chain (dump)
//	the element of a key        that element (NFT_MSG_GETSETELEM); a set of intervals
//	                            that are not part of a longer key is read whole
//
// Of static things it keeps what it has read for as long as nobody changes
// nf_tables, which the generation tells. Nothing is ever written.
package inspect
