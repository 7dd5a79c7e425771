// Package diff compares rule sets and prints them as nft text: the one that the
// running kube-vmap wants, the one that a folder of manifests leads to, and the one
// that the kernel holds.
//
//	command           wanted                        held
//	diff              running process (/drift)      kernel
//	diff --manifests  manifests and flags           kernel
//	render            running process (/rules)
//	render --manifests    manifests and flags
//	render --kernel                                 kernel
//
// [WriteDrift], [WriteRules] and [WriteKernel] are the half that runs in the process:
// it serves their text on its status socket.
package diff
