package model

import (
	"net/netip"
	"slices"
	"strings"
)

// Node is the node that the proxy runs on. Values are comparable.
type Node struct {
	Name string
	Zone string // label topology.kubernetes.io/zone, if set
	// Addrs are the node's primary addresses by family; invalid if unknown.
	Addrs [len(Families)]netip.Addr
	// PodCIDRs are the ranges of the node's pod addresses by family; invalid if unknown.
	PodCIDRs [len(Families)]netip.Prefix
	// Labels are the keys of its labels, and "key=value" of each.
	Labels NameSet
}

// hosts reports whether the endpoint runs on the node. An endpoint without a node
// name runs nowhere, and a node without a name hosts nothing.
func (n *Node) hosts(e *Endpoint) bool { return n.Name != "" && e.Node == n.Name }

// A NodeSelector selects nodes by their labels: those for which each term holds; without terms, all.
type NodeSelector []NodeTerm

// A NodeTerm holds if a node has any of the labels, keys or "key=value"; with Not, if it has none.
type NodeTerm struct {
	Labels NameSet
	Not    bool
}

func (s NodeSelector) selects(labels map[string]bool) bool {
	for _, t := range s {
		has := false
		for label := range strings.SplitSeq(string(t.Labels), ",") {
			has = has || label != "" && labels[label]
		}
		if has == t.Not {
			return false
		}
	}
	return true
}

// setLabels replaces the labels of the node, and marks the Services that it begins or ceases to serve.
func (m *ServiceMap) setLabels(labels NameSet) {
	if labels == m.labels {
		return
	}
	m.labels, m.hasLabel = labels, map[string]bool{}
	for label := range strings.SplitSeq(string(labels), ",") {
		m.hasLabel[label] = true
	}
	for _, e := range m.services {
		if e.service != nil && e.service.Nodes.selects(m.hasLabel) == e.elsewhere {
			m.mark(e)
		}
	}
}

// NodeAddrs are the addresses that serve node ports, sorted.
type NodeAddrs []netip.Addr

// Has reports whether node ports are served at an address.
func (n NodeAddrs) Has(a netip.Addr) bool {
	_, found := slices.BinarySearchFunc(n, a, netip.Addr.Compare)
	return found
}

// Find returns the frontend that packets to a destination meet, among those in a map, and the map's
// value for it: the frontend at that address or, at an address of the node, the node port.
func Find[T any](all map[Match]T, nodes NodeAddrs, to Match) (at Match, of T, found bool) {
	if of, found = all[to]; !found && nodes.Has(to.Addr) {
		to = to.atNodePort()
		of, found = all[to]
	}
	return to, of, found
}
