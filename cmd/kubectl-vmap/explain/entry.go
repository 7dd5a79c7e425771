package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/kubectl-vmap/resolve"
)

// enter sets the node where packets enter the cluster, and the packets: of several nodes, the
// one where they fare worst by its rules, since any may get them.
func (b *builder) enter(ctx context.Context, nodes []resolve.Object) (err error) {
	packets := map[string][]resolve.Packet{}
	nodes = slices.DeleteFunc(nodes, func(n resolve.Object) bool {
		list, e := resolve.Packets(b.client, b.destination, n, b.Families)
		packets[n.Node], err = list, cmp.Or(err, e)
		return e != nil
	})
	if len(nodes) == 0 {
		return err
	}
	b.first = nodes[0].Node
	if len(nodes) > 1 {
		entries := make([]Entry, len(nodes))
		each(len(nodes), func(i int) {
			entries[i] = b.askEntry(ctx, nodes[i].Node, packets[nodes[i].Node])
		})
		slices.SortStableFunc(entries, func(x, y Entry) int { return y.rank() - x.rank() })
		b.report.Entries, b.first = entries, entries[0].Node
	}
	b.packets = packets[b.first]
	return nil
}

// rank orders entries, the worst last; first those that did not answer, which show no way.
func (e *Entry) rank() int {
	if e.silent {
		return -1
	}
	return ranks[e.Arrives]
}

// askEntry asks a node whether packets arrive that enter there, by its rules.
func (b *builder) askEntry(ctx context.Context, node string, packets []resolve.Packet) Entry {
	var values []string
	silent := false
	for _, p := range packets {
		w := Way{To: p.To.String(), Client: b.ask(ctx, node, p, "--observe=0s")}
		switch a := w.Client.Answer; {
		case a == nil:
			values, silent = append(values, answer.Unknown), true
		case b.isUntranslated(&w):
			values = append(values, answer.Never)
		default:
			values = append(values, a.Arrives)
		}
	}
	return Entry{node, either(values...), silent}
}

// entriesText returns at which nodes packets fare how, if that differs.
func (r *Report) entriesText() string {
	var all []string
	by := map[string][]string{}
	for _, e := range r.Entries {
		all, by[e.Arrives] = append(all, e.Node), append(by[e.Arrives], e.Node)
	}
	if len(by) < 2 {
		return ""
	}
	slices.SortFunc(all, findings.CompareNames)
	text := ""
	for _, value := range []string{answer.Never, answer.Unknown, answer.Sometimes, answer.Always} {
		if list := by[value]; len(list) > 0 {
			slices.SortFunc(list, findings.CompareNames)
			text += fmt.Sprintf("; %s by %s", arrivalTexts[value], findings.Where(list, all, ", "))
		}
	}
	return text[len("; "):]
}
