// Package kernel is the one place that talks to nf_tables: it sends a batch,
// whole or not at all, and reads back what the kernel holds in our tables.
//
// A batch leaves as the bytes it was encoded to, in one sendto; when that
// returns, the transaction is over, and whatever the kernel refused waits to be
// read. No acknowledgement is asked for, so that a batch of any size answers
// with nothing when it was taken. Reading has a socket of its own, because
// answers to a dump and errors of a batch would mix.
package kernel
