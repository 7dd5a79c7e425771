// Package report holds what a bench measures and prints it: samples, tables of them,
// promises (sentences that held or not) and marks (figures with a bound). Both benches
// use it, that of the rule set (integration/bench) and that of a node in a cluster
// (integration/cluster/bench).
//
//	s := r.Section("First load", "", "p50", "bytes")
//	s.Add("ip", times.Median(), report.Bytes(n))      // cells of any type that Text knows
//	r.MarkTime("first load", times.Median(), "floor", time.Second)
//	return r.Print(err)                               // not nil if a mark is missed
package report
