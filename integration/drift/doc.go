// Package drift tests that changes of nftables by other programs, in our tables or in
// theirs, are noticed, and do not keep the loop from its work: with so many Services
// that a read takes a while, and while several programs write.
package drift
