package nft

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"

	"kube-vmap/model"
)

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
