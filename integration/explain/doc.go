// Package explain holds the tests that `kube-vmap explain` is right: what it says of
// a packet is compared with what becomes of that packet, sent for real.
//
//	random packet ---> explain: by whom it may be answered, as whom it is seen,
//	      |                     that it is refused, that it is dropped
//	      +----------> the kernel: who answered, and whom they saw
//
// That it agrees on every cell of the packet matrix is shown where that is:
// integration/matrix, TestExplainAgreesWithMatrix.
package explain
