package live

import (
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
	out := []Difference{}
	for i := range all {
		n := &all[i]
		if n.Error != "" || n.More > 0 {
			continue
		}
		var text []string
		if !n.Known && len(known) > 0 {
			text = append(text, "it does not know the Service")
		}
		has := map[string]bool{}
		var more []string
		for _, f := range n.Flows {
			has[f.Address] = true
			if 2*known[f.Address] < answers {
				more = append(more, f.Address)
			}
		}
		var lacks []string
		for address, count := range known {
			if !has[address] && 2*count >= answers && n.Known {
				lacks = append(lacks, address)
			}
		}
		text = append(text, listed("it does not know ", lacks)...)
		text = append(text, listed("only it knows ", more)...)
		for _, t := range text {
			out = append(out, Difference{n.Name, t})
		}
	}
	return out
}

// listed returns a text with addresses, if there are any.
func listed(what string, addresses []string) []string {
	if len(addresses) == 0 {
		return nil
	}
	slices.SortFunc(addresses, findings.CompareNames)
	return []string{what + nodestatus.JoinFirst(addresses, len(addresses), maxNames)}
}
