package kubeproxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Table is the content of one table of iptables, in either backend.
type Table struct {
	// Name is nat, filter or mangle.
	Name string
	// Chains are all chains of the table. The value is true for those at a hook: the
	// built-in ones, PREROUTING and so on.
	Chains map[string]bool
	Rules  []Rule
}

// A Rule is the part of a rule that matters here.
type Rule struct {
	Chain  string // that it is in
	Target string // the chain that it jumps to, if any
	Handle uint64
}

// A Plan is what has to be done to remove kube-proxy from a table, in the order of the
// fields.
type Plan struct {
	// Unhook are the rules to delete, as indexes in [Table.Rules].
	Unhook []int
	// Empty are the chains to empty, sorted.
	Empty []string
	// Delete are the chains to delete; all of them are in Empty.
	Delete []string
}

// Plan returns what to remove from the table.
//
// A chain that another program's rule jumps to cannot be deleted without that rule, which
// is not ours. It is only emptied, so that it does not send packets to stale endpoints.
// KUBE-MARK-MASQ even keeps its rule, because programs that jump there want the mark.
func (t Table) Plan() Plan {
	used, filled := map[string]bool{}, map[string]bool{}
	var p Plan
	for i, r := range t.Rules {
		switch {
		case IsChain(t.Name, r.Chain):
			filled[r.Chain] = true
		case t.Chains[r.Chain] && IsHooked(t.Name, r.Target):
			p.Unhook = append(p.Unhook, i)
		default:
			used[r.Target] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Chains)) {
		switch {
		case !IsChain(t.Name, name):
		case !used[name]:
			p.Empty = append(p.Empty, name)
			p.Delete = append(p.Delete, name)
		case filled[name] && name != markChain:
			p.Empty = append(p.Empty, name)
		}
	}
	return p
}

// IsEmpty reports whether there is nothing to remove.
func (p Plan) IsEmpty() bool { return len(p.Unhook)+len(p.Empty) == 0 }

// String names what is removed, for a log. Chains of single Services and endpoints are
// counted.
func (p Plan) String() string {
	var parts []string
	if n := len(p.Unhook); n > 0 {
		parts = append(parts, fmt.Sprintf("jumps (%d)", n))
	}
	parts = append(parts, summary(p.Delete)...)
	emptied := slices.DeleteFunc(slices.Clone(p.Empty), func(name string) bool {
		_, deleted := slices.BinarySearch(p.Delete, name)
		return deleted
	})
	for _, name := range summary(emptied) {
		parts = append(parts, "content of "+name+", which others use")
	}
	return strings.Join(parts, ", ")
}

// summary returns the names, and the number of those that differ by a hash only.
func summary(names []string) []string {
	var parts []string
	counts := map[string]int{}
	for _, name := range names {
		if m := hashed.FindStringSubmatch(name); m != nil {
			counts[m[1]+"*"]++
		} else {
			parts = append(parts, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", name, counts[name]))
	}
	return parts
}
