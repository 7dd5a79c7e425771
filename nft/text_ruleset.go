package nft

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"kube-vmap/model"
)

// Render writes the whole state as a file for nft -f, which replaces our tables in one
// transaction.
func (r *Ruleset) Render(w io.Writer) error {
	out := bufio.NewWriter(w)
	all := r.Elements()
	sets := slices.SortedFunc(maps.Keys(r.sizes), compareSets)
	chains := r.chains()
	slices.SortFunc(chains, compareChains)
	for _, f := range model.Families {
		fmt.Fprintf(out, "add table %[1]s\ndelete table %[1]s\ntable %[1]s {", table(f))
		for c := range Counters {
			fmt.Fprintf(out, "\n\tcounter %s {\n\t\tpackets 0 bytes 0\n\t}\n", c)
		}
		for _, id := range sets {
			if id.Family == f {
				renderSet(out, id, r.sizes[id], all[id])
			}
		}
		for _, id := range chains {
			if id.Family == f {
				r.renderChain(out, id)
			}
		}
		out.WriteString("}\n")
	}
	return out.Flush()
}

func renderSet(out *bufio.Writer, id SetID, size uint32, list []Element) {
	fmt.Fprintf(out, "\n\t%s %s {\n", id.noun(), id.Name())
	for _, line := range id.declaration(size) {
		fmt.Fprintf(out, "\t\t%s\n", line)
	}
	for i := range list {
		var s strings.Builder // of one element: a set can have tens of megabytes
		list[i].write(&s, id, true)
		before := ",\n\t\t\t     "
		if i == 0 {
			before = "\t\telements = { "
		}
		out.WriteString(before + s.String())
	}
	if len(list) > 0 {
		out.WriteString(" }\n")
	}
	out.WriteString("\t}\n")
}

func (r *Ruleset) renderChain(out *bufio.Writer, id ChainID) {
	fmt.Fprintf(out, "\n\tchain %s {\n", id.Name())
	if h := id.Kind.hook(); h != nil {
		fmt.Fprintf(out, "\t\t%s\n", h)
	}
	for _, rule := range r.rules(id) {
		fmt.Fprintf(out, "\t\t%s\n", rule)
	}
	out.WriteString("\t}\n")
}

// Render writes the tables as nft text, for people. Only fingerprints of rules are read:
// rules that the configuration makes are written as text, all others as a comment. Elements
// that packets added are not included.
func (t Tables) Render(w io.Writer, c Config) error {
	out := bufio.NewWriter(w)
	for _, f := range model.Families {
		if t[f] != nil {
			t[f].render(out, f, &c)
		}
	}
	return out.Flush()
}

func (t *Table) render(out *bufio.Writer, f model.Family, c *Config) {
	fmt.Fprintf(out, "table %s {", table(f))
	switch {
	case t.Owner != 0:
		fmt.Fprintf(out, " # belongs to netlink port %d", t.Owner)
	case t.Protected:
		out.WriteString(" # its owner is removed")
	}
	if t.Dormant {
		out.WriteString("\n\tflags dormant")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Sets)) {
		set := t.Sets[name]
		id, known := SetNamed(f, name)
		if !known || !set.Shape.Fits(id) {
			fmt.Fprintf(out, "\n\t# set or map %s is none that kube-vmap makes\n", name)
			continue
		}
		renderSet(out, id, set.Shape.Size, set.Elements)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Chains)) {
		id := ChainNamed(f, name)
		t.Chains[name].render(out, name, id, c.rules(id, t.has))
	}
	out.WriteString("}\n")
}

func (t *Table) has(id SetID) bool {
	_, exists := t.Sets[id.Name()]
	return exists
}

// render writes a chain. The given rules are written as text.
func (s ChainState) render(out *bufio.Writer, name string, id ChainID, rules []Rule) {
	fmt.Fprintf(out, "\n\tchain %s {\n", name)
	switch {
	case s.Hook == HookState{}:
	case id.Kind < chainKinds && s.Hook == id.Hook():
		fmt.Fprintf(out, "\t\t%s\n", id.Kind.hook())
	default:
		fmt.Fprintf(out, "\t\t# type %s, hook %d, priority %d\n", s.Hook.Type, s.Hook.Number, s.Hook.Priority)
	}
	texts := map[Fingerprint]string{}
	for _, r := range rules {
		texts[r.Fingerprint()] = r.String()
	}
	for _, fingerprint := range s.Rules {
		text := texts[fingerprint]
		if text == "" {
			text = "# a rule that kube-vmap does not make here with these flags"
		}
		fmt.Fprintf(out, "\t\t%s\n", text)
	}
	out.WriteString("\t}\n")
}
