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

// Differences writes what a batch that repairs would change, for people: a line for
// each element and rule, behind "-" what is there and should not be, behind "+" what
// should be there and is not. A batch without anything to do writes nothing.
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

// difference is one line: what comes or goes, and of which set or chain.
type difference struct {
	sign     byte
	family   model.Family
	of, text string
}

// Signs of a difference.
const (
	comes = '+'
	goes  = '-'
)

// differences are those of one change.
func differences(op Op) []difference {
	switch op := op.(type) {
	case AddTable:
		return []difference{{comes, op.Family, "", "(the table, or its owner)"}}
	case DeleteTable:
		return []difference{{goes, op.Family, "", "(the table, to be made anew)"}}
	case AddCounter:
		return []difference{{comes, op.Family, "counter " + CounterName, ""}}
	case AddSet:
		return []difference{{comes, op.Set.Family, op.Set.noun() + " " + op.Set.Name(), ""}}
	case DeleteSet:
		return []difference{{goes, op.Family, "set or map " + op.Name, ""}}
	case AddChain:
		return []difference{{comes, op.Chain.Family, "chain " + op.Chain.Name(), ""}}
	case DeleteChain:
		return []difference{{goes, op.Family, "chain " + op.Name, ""}}
	case FlushChain:
		return []difference{{goes, op.Family, "chain " + op.Name, ": its rules"}}
	case AddRule:
		return []difference{{comes, op.Chain.Family, "chain " + op.Chain.Name(), ": " + op.Rule.String()}}
	case DeleteElements:
		return elementLines(goes, op.Set, op.Elements)
	}
	id, list, _ := AddedElements(op)
	return elementLines(comes, id, list)
}

// elementLines are a line for each element. The Service stands behind those that have
// no comment in the kernel.
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
