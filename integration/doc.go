// Package integration holds what needs a kernel, an API server or time: tests
// with real packets between network namespaces, the demo, and the benchmarks.
// It also holds the tests of the house itself, which look at the tree as a
// whole: which room may import which, and what no file may do.
//
// It may import every other room. Nothing imports it.
package integration
