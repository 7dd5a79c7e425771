// Package addresses holds the tests of package sync/addresses that the kernel
// must judge: what it says of addresses that come and go, each time in a fresh
// network namespace, as root.
package addresses
