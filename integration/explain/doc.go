// Package explain tests that `kube-vmap explain` is right: its prediction for a packet is
// compared with what happens to the packet when it is sent.
//
//	random packet ---> explain: which endpoints may answer, which source they see,
//	      |                     or that it is refused or dropped
//	      +----------> the kernel: who answered, and which source they saw
//
// The sources of simulations that compare rule sets are compared with the kernel, too: a rule
// set in memory, and one table of another program.
//
// That the prediction agrees with every cell of the packet matrix is tested in
// integration/matrix, TestMatrix.
package explain
