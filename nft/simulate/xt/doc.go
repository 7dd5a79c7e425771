// Package xt has the matches and targets of iptables as plain values, and decodes them from
// the binary structures that iptables-nft writes to the kernel.
//
//	expression "match": name, revision, structure --> DecodeMatch  --> Mark, Conntrack, ...
//	expression "target":                          --> DecodeTarget --> NAT, SetMark, expr.Reject, ...
//
// The structures are those of include/uapi/linux/netfilter/xt_*.h. They are in the byte order
// of the machine, except for ports of translations. Package simulate evaluates the values.
//
// What is not in the tables of this package is unknown to the caller. A structure that is too
// short is unknown, too.
package xt
