package answer

import (
	"fmt"
	"strings"
)

// Elsewhere is the place of a client that is not on this node.
type Elsewhere struct {
	// Pod reports whether it is a pod of another node. Otherwise it may be one, or another
	// node, or outside the cluster.
	Pod  bool   `json:"pod"`
	Node string `json:"node,omitempty"` // of the client, if an EndpointSlice has it
	Via  string `json:"via,omitempty"`  // the next hop towards it
	// Ask are the commands that lead to the answer.
	Ask []string `json:"ask"`
}

// decides reports whether the rules of another node are known to apply first.
func (e *Elsewhere) decides() bool { return e != nil && e.Pod }

// text prints what the answer does not cover, and where to run the command instead.
func (e *Elsewhere) text(b *strings.Builder, from string) {
	if !e.decides() {
		fmt.Fprintf(b, "\nNote: %s is not on this node%s. If it is a pod or a node of the cluster, the rules of\n"+
			"its own node apply first: run this there. If it is outside the cluster, run this on the node that it connects to.\n"+
			"On your own machine, kubectl vmap explain finds the node.\n", from, e.by())
		return
	}
	fmt.Fprintf(b, "\n%s is a pod of %s%s, whose rules apply first. Their effect on\n"+
		"the packet is not known here; this is about a packet that arrives here unchanged. On your own machine, kubectl vmap asks\n"+
		"that node; otherwise run kube-vmap there:\n", from, e.where(), e.by())
	for _, command := range e.Ask {
		fmt.Fprintf(b, "  %s\n", command)
	}
}

func (e *Elsewhere) where() string {
	if e.Node == "" {
		return "another node"
	}
	return "node " + e.Node
}

func (e *Elsewhere) by() string {
	if e.Via == "" {
		return ""
	}
	return ", by way of " + e.Via
}
