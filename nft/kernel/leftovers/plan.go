package leftovers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table is what one table of iptables holds, in either backend.
type Table struct {
	// Name is nat, filter or mangle.
	Name string
	// Chains are all chains of the table. True marks those that stand at a hook:
	// the built-in ones, PREROUTING and so on.
	Chains map[string]bool
	Rules  []Rule
}

// Rule is as much of a rule as matters here.
type Rule struct {
	Chain  string // in which it stands
	Target string // the chain to which it jumps, empty if it does not
}

// Plan is what has to be done to a table, in the order of the fields, for
// nothing of kube-proxy to be left.
type Plan struct {
	// Unhook are the rules to delete, by their place in [Table.Rules].
	Unhook []int
	// Empty are the chains that lose all rules.
	Empty []string
	// Delete are the chains that go; all of them are in Empty.
	Delete []string
}

// Plan says what is kube-proxy's in the table.
//
// A chain that another program's rule jumps to cannot go without that rule, which
// is not ours to delete. It is only emptied, so that it sends nobody to endpoints
// of yesterday, and the jump leads to nothing. KUBE-MARK-MASQ even keeps its rule,
// since those who jump there want the mark. Chains in busy are treated the same:
// somebody uses them in a way that does not show in the rules.
func (t Table) Plan(busy ...string) Plan {
	used := map[string]bool{}
	for _, name := range busy {
		used[name] = true
	}
	filled := map[string]bool{}
	var p Plan
	for i, r := range t.Rules {
		switch {
		case IsKubeProxyChain(t.Name, r.Chain):
			filled[r.Chain] = true
		case t.Chains[r.Chain] && isHooked(t.Name, r.Target):
			p.Unhook = append(p.Unhook, i)
		default:
			used[r.Target] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Chains)) {
		switch {
		case !IsKubeProxyChain(t.Name, name):
		case !used[name]:
			p.Empty = append(p.Empty, name)
			p.Delete = append(p.Delete, name)
		case filled[name] && name != markChain:
			p.Empty = append(p.Empty, name)
		}
	}
	return p
}

// IsEmpty reports whether there is nothing to do.
func (p Plan) IsEmpty() bool { return len(p.Unhook)+len(p.Empty) == 0 }

// String names what goes, for a log: chains of single Services and endpoints by
// their number only.
func (p Plan) String() string {
	var parts []string
	if n := len(p.Unhook); n > 0 {
		parts = append(parts, fmt.Sprintf("jumps (%d)", n))
	}
	parts = append(parts, summary(p.Delete)...)
	for _, name := range summary(p.emptiedOnly()) {
		parts = append(parts, "content of "+name+", which others use")
	}
	return strings.Join(parts, ", ")
}

// emptiedOnly are the chains that lose their rules and stay.
func (p Plan) emptiedOnly() []string {
	gone := map[string]bool{}
	for _, name := range p.Delete {
		gone[name] = true
	}
	return slices.DeleteFunc(slices.Clone(p.Empty), func(name string) bool { return gone[name] })
}

// summary counts what differs by a hash only.
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
