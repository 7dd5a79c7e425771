package components

import (
	"slices"
	"strconv"

	"kube-vmap/nft/kernel/dump"
)

// A Verdict says whether kube-vmap works beside a component.
type Verdict string

// Verdicts, the best first.
const (
	// Fine means that both work, and nothing has to be done.
	Fine Verdict = "fine"
	// Needs means that a setting, of either, is needed.
	Needs Verdict = "needs"
	// Conflict means that they do not work on the same node.
	Conflict Verdict = "conflict"
)

// A Component is a program that may be on a node, or one of its modes.
type Component struct {
	// ID is the anchor of the component's row in docs/compatibility.md.
	ID   string
	Name string
	// Verdict is what the row says; Advice is what to do, or the reason, in one line.
	Verdict Verdict
	Advice  string
}

// A Finding is a component that is on the node.
type Finding struct {
	Component
	// Evidence is what was found: of the mode, of other modes, which may be left over, and of
	// the component.
	Evidence []string
}

// entry is a component with its signs. One of them is enough.
type entry struct {
	Component
	signs []sign
	// modes are what the component may be set to, as components with signs of their own.
	// The first with a sign is taken, and entry itself if none has one.
	modes []entry
}

// Find returns the components on a node.
func Find(n *Node) []Finding {
	var all []Finding
	for i := range known {
		if f, ok := known[i].find(n); ok {
			all = append(all, f)
		}
	}
	return all
}

// Has reports whether a component is among the findings, in any mode.
func Has(findings []Finding, id string) bool {
	i := slices.IndexFunc(known, func(e entry) bool { return e.ID == id })
	if i < 0 {
		panic("components: no component " + strconv.Quote(id))
	}
	return slices.ContainsFunc(findings, func(f Finding) bool {
		return f.ID == id || slices.ContainsFunc(known[i].modes, func(m entry) bool { return m.ID == f.ID })
	})
}

// All returns every component that [Find] knows, with each mode.
func All() []Component {
	var all []Component
	for _, e := range known {
		all = append(all, e.Component)
		for _, m := range e.modes {
			all = append(all, m.Component)
		}
	}
	return all
}

// Unrecognized returns the tables of nf_tables with chains at hooks that belong to no
// component: those of an administrator, or of a program that is not known. The tables of
// iptables, which programs share, and kube-vmap's own are not among them.
func Unrecognized(n *Node) (tables []string) {
	for i := range n.Tables {
		t := &n.Tables[i]
		hooked := slices.ContainsFunc(t.Chains, func(c dump.Chain) bool { return c.Hook != "" })
		if hooked && !t.Legacy && !t.IsOurs() && !isOfIPTables(t) && !isKnown(t) {
			tables = append(tables, t.String())
		}
	}
	return tables
}

func isOfIPTables(t *dump.Table) bool {
	return slices.Contains([]string{"ip", "ip6", "arp", "bridge"}, t.Family) &&
		slices.Contains([]string{"filter", "nat", "mangle", "raw", "security"}, t.Name)
}

func isKnown(t *dump.Table) bool {
	return slices.ContainsFunc(names(tableSign), func(name string) bool { return matches(name, t.Name) || matches(name, t.String()) })
}

func (e *entry) find(n *Node) (Finding, bool) {
	f := Finding{Component: e.Component, Evidence: evidence(e.signs, n)}
	for _, m := range slices.Backward(e.modes) {
		if more := evidence(m.signs, n); len(more) > 0 {
			f.Component, f.Evidence = m.Component, append(more, f.Evidence...)
		}
	}
	return f, len(f.Evidence) > 0
}

func evidence(signs []sign, n *Node) (found []string) {
	for _, s := range signs {
		if text := s.evidence(n); text != "" && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}

// names returns the names in all signs of a kind.
func names(k signKind) (found []string) {
	for _, e := range known {
		for _, m := range append([]entry{e}, e.modes...) {
			for _, s := range m.signs {
				if s.kind == k {
					found = append(found, s.name)
				}
			}
		}
	}
	return found
}

// ports returns the ports that signs name.
func ports() (numbers []uint16) {
	for _, text := range names(portSign) {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			panic("components: " + err.Error())
		}
		numbers = append(numbers, uint16(number))
	}
	return numbers
}
