package model

import "net/netip"

// Node is the node that the proxy runs on. Values are comparable.
type Node struct {
	Name string
	Zone string // label topology.kubernetes.io/zone, if set
	// Addrs are the node's primary addresses by family; invalid if unknown.
	Addrs [len(Families)]netip.Addr
	// PodCIDRs are the ranges of the node's pod addresses by family; invalid if unknown.
	PodCIDRs [len(Families)]netip.Prefix
}

// hosts reports whether the endpoint runs on the node. An endpoint without a node
// name runs nowhere, and a node without a name hosts nothing.
func (n *Node) hosts(e *Endpoint) bool { return n.Name != "" && e.Node == n.Name }
