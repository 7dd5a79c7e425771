// Package bench measures what the rule set costs, as benchmarks on the real kernel, in network
// namespaces of their own:
//
//	go test -run '^$' -bench . -benchtime 1x -timeout 1h ./integration/bench
//
// Each decides by itself how often it repeats what it measures; with -short less often, and for
// smaller clusters. A line has medians, if its unit does not say otherwise.
//
// Times depend on the machine and on its load. So most are compared with a floor that is
// measured in the same run, alternating with it: the time that the kernel takes for the same
// bytes, encoded beforehand and sent without anything else. A benchmark that misses a mark
// fails.
package bench
