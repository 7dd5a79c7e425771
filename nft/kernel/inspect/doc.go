// Package inspect reads of nf_tables what one packet meets: base chains, the rules of single
// chains, single elements of sets. It implements [simulate.Rules]. Except for the list of
// chains, the cost does not depend on the size of the rule set.
//
//	the simulation asks for     the kernel is asked for
//	base chains                 tables and chains (dump), their hooks
//	rules of a chain            rules of that chain (dump)
//	the element of a key        that element (NFT_MSG_GETSETELEM); a set of intervals
//	                            that are not part of a longer key is read whole
//
// For comparing rule sets there are two more sources: [Table] has one table of another
// program, also a dormant one, whose named sets it reads whole; [Memory] has a rule set of
// ours that no kernel holds.
//
// What [Rules] has read is cached until nf_tables changes, which its generation shows, except for
// sets that packets change. Nothing is ever written.
//
// Expressions are decoded by google/nftables, but only those of which it decodes every
// attribute. Its own listing of rules is not used: it skips expressions that it does not know
// and attributes that it does not read, and a simulation without them would be wrong.
package inspect
