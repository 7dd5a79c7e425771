// Package drift tests that what other programs do to nftables, to our tables or to
// their own, neither goes unnoticed nor keeps the loop from its work: at a size at
// which reading takes a while, and while everybody writes.
package drift
