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
