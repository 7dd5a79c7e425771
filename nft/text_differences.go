package nft

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"kube-vmap/model"
)

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
