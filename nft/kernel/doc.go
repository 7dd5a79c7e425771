// Package kernel programs nf_tables: it commits batches, whole or not at all, and reads
// back what the kernel holds in our tables.
//
// A batch leaves as the bytes it was encoded to, in one sendto. When that returns, the
// transaction is over, and the errors are ready to be read. No acknowledgements are
// requested, so an accepted batch of any size has no reply. Reads have a socket of their
// own, because replies to a dump and errors of a batch would mix.
//
// google/nftables is not used here: it encodes a first load several times slower, with
// an allocation or more for each element, and its error does not say which element was
// refused.
package kernel
