// Package addresses tests package sync/source/addresses with the kernel: its notifications when
// addresses are added and removed, in fresh network namespaces, as root.
package addresses
