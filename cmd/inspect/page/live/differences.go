package live

import (
	"maps"
	"slices"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
)

// Difference is what a node knows otherwise than the others.
type Difference struct {
	Node string `json:"node"`
	Text string `json:"text"`
}

// differences compares the endpoints that nodes know with those that most of them know.
func differences(all []NodeDetails) []Difference {
	known := map[string]int{}
	answers := 0
	for i := range all {
		if all[i].Error == "" {
			answers++
			for _, f := range all[i].Flows {
				known[f.Address]++
			}
		}
	}
	var usual []string // that most nodes know
	for _, a := range slices.SortedFunc(maps.Keys(known), findings.CompareNames) {
		if 2*known[a] >= answers {
			usual = append(usual, a)
		}
	}
	out := []Difference{}
	for i := range all {
		n := &all[i]
		if n.Error != "" || n.More > 0 || len(known) == 0 {
			continue
		}
		if !n.Known {
			out = append(out, Difference{n.Name, "it does not know the Service"})
			continue
		}
		has := map[string]bool{}
		var more []string
		for _, f := range n.Flows {
			has[f.Address] = true
			if 2*known[f.Address] < answers {
				more = append(more, f.Address)
			}
		}
		lacks := slices.DeleteFunc(slices.Clone(usual), func(a string) bool { return has[a] })
		add := func(text string, list []string) {
			if len(list) > 0 {
				text += nodestatus.JoinFirst(list, len(list), maxNames)
				out = append(out, Difference{n.Name, text})
			}
		}
		add("it does not know ", lacks)
		add("only it knows ", more)
	}
	return out
}
