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
	addresses := slices.SortedFunc(maps.Keys(known), findings.CompareNames)
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
		var lacks, more []string
		for _, a := range addresses {
			switch has := slices.ContainsFunc(n.Flows, func(f Flow) bool { return f.Address == a }); {
			case has && 2*known[a] < answers:
				more = append(more, a)
			case !has && 2*known[a] >= answers:
				lacks = append(lacks, a)
			}
		}
		for _, d := range []struct {
			text      string
			addresses []string
		}{{"it does not know ", lacks}, {"only it knows ", more}} {
			if n := len(d.addresses); n > 0 {
				out = append(out, Difference{all[i].Name, d.text + nodestatus.JoinFirst(d.addresses, n, maxNames)})
			}
		}
	}
	return out
}
