// Package dump reads what other programs have in the kernel's packet filters: tables, chains,
// rules, sets and elements of nf_tables, and the tables of iptables-legacy by name. It is the only
// reader of them; our own rule set has one that keeps up with every change (package kernel). It
// writes nothing, creates no table, and loads no module of iptables only to find no rules.
//
//	Tables, Legacy          names, hooks, policies             to recognize programs
//	Reader                  chains, rules                      kube-proxy's remains, traces
//	                        what one packet meets              explain
//	TableRules              one table, as if it were alone     shadow
//	Memory                  a rule set of ours in memory       shadow
//
// The last three implement [simulate.Rules]. A rule is a [simulate.Rule], also for its text.
//
// [Reader] asks the kernel for the base chains (dump), the rules of a chain (dump of that chain),
// and the element of a key (NFT_MSG_GETSETELEM; a set of intervals that are not part of a longer
// key is read whole). So, except for the list of chains, the cost does not depend on the size of
// the rule set. It has no snapshot: others may write meanwhile, unless [Reader.Snapshot] reads again.
//
// Expressions are decoded by google/nftables, but only those of which it decodes every
// attribute. Its own listing of rules is not used: it skips expressions that it does not know
// and attributes that it does not read, and a simulation without them would be wrong.
package dump
