package nft

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"kube-vmap/model"
)

// String returns the batch as nft commands, one on each line.
func (b Batch) String() string {
	var s strings.Builder
	for _, op := range b {
		s.WriteString(op.String())
		s.WriteByte('\n')
	}
	return s.String()
}

// MarshalText returns the same, for logs of any format.
func (b Batch) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func (o AddTable) String() string {
	s := "add table " + table(o.Family)
	if o.Protected {
		s += " { flags owner, persist; }"
	}
	return s
}

func (o DeleteTable) String() string { return "delete table " + table(o.Family) }

func (o AddCounter) String() string {
	return "add counter " + table(o.Family) + " " + o.Counter.String()
}

func (o AddSet) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "add %s %s %s { ", o.Set.noun(), table(o.Set.Family), o.Set.Name())
	for _, line := range o.Set.declaration(o.Size) {
		s.WriteString(line + "; ")
	}
	s.WriteString("}")
	return s.String()
}

func (o DeleteSet) String() string { return "delete set " + table(o.Family) + " " + o.Name }

func (o AddChain) String() string {
	s := "add chain " + table(o.Chain.Family) + " " + o.Chain.Name()
	if h := o.Chain.Kind.hook(); h != nil {
		s += " { " + h.String() + " }"
	}
	return s
}

func (o FlushChain) String() string  { return "flush chain " + table(o.Family) + " " + o.Name }
func (o DeleteChain) String() string { return "delete chain " + table(o.Family) + " " + o.Name }

func (o AddRule) String() string {
	return "add rule " + table(o.Chain.Family) + " " + o.Chain.Name() + " " + o.Rule.String()
}

func (o AddElements) String() string    { return "add " + elements(o.Set, o.Elements, true) }
func (o DeleteElements) String() string { return "delete " + elements(o.Set, o.Elements, false) }

// String is the declaration that makes a chain a base chain.
func (h *hook) String() string {
	return fmt.Sprintf("type %s hook %s priority %s; policy accept;", h.chainType, h.name, h.priorityName)
}

func table(f model.Family) string { return families[f].name + " " + TableName() }

// noun is nft's word for the set, "set" or "map".
func (id SetID) noun() string {
	if id.Layout().Content == ContentNone {
		return "set"
	}
	return "map"
}

// declaration returns the lines of a set's declaration.
func (id SetID) declaration(size uint32) []string {
	l, fam := id.Layout(), id.family()
	word := "type"
	if l.Typeof {
		word = "typeof"
	}
	line := word + " " + l.typeText(fam, l.Key)
	if l.Content != ContentNone {
		line += " : " + l.dataText(fam)
	}
	switch {
	case l.Interval:
		return []string{line, "flags interval"}
	case l.expires > 0:
		return []string{line, fmt.Sprintf("size %d", l.limit), "flags dynamic,timeout", "timeout " + durationText(l.expires)}
	case l.timeout:
		return []string{line, fmt.Sprintf("size %d", l.limit), "flags dynamic,timeout"}
	case l.dynamic():
		return []string{line, fmt.Sprintf("size %d", l.limit), "flags dynamic"}
	case l.Expressions != nil:
		return []string{line, fmt.Sprintf("size %d", size), l.expressions}
	}
	return []string{line, fmt.Sprintf("size %d", size)}
}

// elements is the object of a command that adds or deletes elements.
func elements(id SetID, list []Element, whole bool) string {
	var s strings.Builder
	fmt.Fprintf(&s, "element %s %s { ", table(id.Family), id.Name())
	for i := range list {
		if i > 0 {
			s.WriteString(", ")
		}
		list[i].write(&s, id, whole)
	}
	s.WriteString(" }")
	return s.String()
}

// write writes an element, whole or only its key.
func (e *Element) write(s *strings.Builder, id SetID, whole bool) {
	l := id.Layout()
	for i, f := range l.Key {
		if i > 0 {
			s.WriteString(" . ")
		}
		e.Key.writeField(s, f, l.Interval)
	}
	if !whole {
		return
	}
	if comment := e.AppendComment(nil); l.Comments && len(comment) > 0 {
		fmt.Fprintf(s, " comment %q", comment)
	}
	switch {
	case l.Content == ContentEndpoint:
		fmt.Fprintf(s, " : %s . %d", e.Value.Endpoint.Addr(), e.Value.Endpoint.Port())
	case l.Content == ContentAddress:
		fmt.Fprintf(s, " : %s", e.Value.Endpoint.Addr())
	case l.Content == ContentPort:
		fmt.Fprintf(s, " : %d", e.Value.Endpoint.Port())
	case l.Content == ContentNumber:
		s.WriteString(" : " + ClassID(e.Value.Number))
	case e.Value.Verdict == VerdictGoto:
		s.WriteString(" : goto " + e.Value.Chain.Name())
	case e.Value.Verdict == VerdictDrop:
		s.WriteString(" : drop")
	}
}

// ClassID returns a packet's priority as nft lists it: the major and minor number of a
// class of traffic control.
func ClassID(n uint32) string { return fmt.Sprintf("%x:%x", n>>16, n&0xffff) }

func (k *Key) writeField(s *strings.Builder, f Field, interval bool) {
	switch f {
	case FieldSource, FieldDestination, FieldOriginalDestination:
		s.WriteString(k.Addr.String())
		if interval && int(k.Bits) < k.Addr.BitLen() {
			fmt.Fprintf(s, "/%d", k.Bits)
		}
	case FieldClient:
		s.WriteString(k.SourcePrefix().Addr().String())
	case FieldProtocol:
		s.WriteString(k.Protocol.String())
	case FieldPort, FieldOriginalPort:
		fmt.Fprintf(s, "%d", k.Port)
	case FieldPick:
		fmt.Fprintf(s, "%d", k.Pick)
	case FieldNumber:
		s.WriteString(ClassID(k.Pick))
	default:
		panic(f.unknown())
	}
}

// Differences writes what a batch from [Ruleset.Repair] would change, for people: a line for
// each element and rule, after "-" if it exists and should not, after "+" if it is missing.
// It writes nothing for an empty batch.
func (b Batch) Differences(w io.Writer) error {
	var all []difference
	for _, op := range b {
		all = append(all, differences(op)...)
	}
	slices.SortStableFunc(all, func(a, b difference) int {
		return cmp.Or(cmp.Compare(a.family, b.family), strings.Compare(a.of, b.of))
	})
	out := bufio.NewWriter(w)
	for _, d := range all {
		fmt.Fprintf(out, "%c %s %s\n", d.sign, table(d.family), d.of+d.text)
	}
	return out.Flush()
}

// A difference is one line: what is added or deleted, and its set or chain.
type difference struct {
	sign     byte
	family   model.Family
	of, text string
}

// Signs of a difference.
const (
	signAdded   = '+'
	signDeleted = '-'
)

// differences returns the lines of one change.
func differences(op Op) []difference {
	switch op := op.(type) {
	case AddTable:
		return []difference{{signAdded, op.Family, "", "(the table, or its owner)"}}
	case DeleteTable:
		return []difference{{signDeleted, op.Family, "", "(the table, to be rebuilt)"}}
	case AddCounter:
		return []difference{{signAdded, op.Family, "counter " + op.Counter.String(), ""}}
	case AddSet:
		return []difference{{signAdded, op.Set.Family, op.Set.noun() + " " + op.Set.Name(), ""}}
	case DeleteSet:
		return []difference{{signDeleted, op.Family, "set or map " + op.Name, ""}}
	case AddChain:
		return []difference{{signAdded, op.Chain.Family, "chain " + op.Chain.Name(), ""}}
	case DeleteChain:
		return []difference{{signDeleted, op.Family, "chain " + op.Name, ""}}
	case FlushChain:
		return []difference{{signDeleted, op.Family, "chain " + op.Name, ": its rules"}}
	case AddRule:
		return []difference{{signAdded, op.Chain.Family, "chain " + op.Chain.Name(), ": " + op.Rule.String()}}
	case DeleteElements:
		return elementLines(signDeleted, op.Set, op.Elements)
	}
	id, list, _ := AddedElements(op)
	return elementLines(signAdded, id, list)
}

// elementLines returns a line for each element. Those that have no comment in the kernel are
// followed by the Service.
func elementLines(sign byte, id SetID, list []Element) []difference {
	out := make([]difference, len(list))
	for i := range list {
		var s strings.Builder
		s.WriteString(": ")
		list[i].write(&s, id, true)
		if c := list[i].ServiceName(); c != "" && !id.Layout().Comments {
			s.WriteString(" # " + c)
		}
		out[i] = difference{sign, id.Family, id.noun() + " " + id.Name(), s.String()}
	}
	return out
}

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
