package components

import (
	"fmt"
	"slices"
)

// passive are components beside which packets of established connections may take the fast
// path: their rules translate or accept packets, and none has to see every one. A component
// that is not listed may filter, mark or count packets of established connections, route by
// marks, or have a flowtable of its own.
var passive = []string{
	KubeProxy, "kube-proxy-nftables", "kube-proxy-ipvs", "kube-proxy-iptables", "kube-proxy-iptables-legacy",
	"flannel", "portmap", "portmap-nftables", "portmap-iptables", Bridge, "node-local-dns", "metallb",
}

// FastPathObstacle returns why packets must not bypass the rules of a node, which the fast path
// of established connections makes them do; an empty text if nothing is known against it.
// Processes count only if they are known to be in the node's network namespace: every author
// of a pod chooses the names of its processes, and those have no rules on the node.
func FastPathObstacle(n *Node) string {
	for _, u := range n.Unseen {
		if u.What == NFTables || u.What == LegacyTables {
			return fmt.Sprintf("rules of other programs cannot be read: %v", u.Err)
		}
	}
	here := *n
	here.Processes = slices.DeleteFunc(slices.Clone(n.Processes), func(p Process) bool { return !p.Here })
	for _, f := range Find(&here) {
		if !slices.Contains(passive, f.ID) {
			return fmt.Sprintf("rules of %s may have to see every packet (%s)", f.Name, f.Evidence[0])
		}
	}
	if tables := Unrecognized(n); len(tables) > 0 {
		return fmt.Sprintf("rules of table %s, which is not recognized, may have to see every packet", tables[0])
	}
	return ""
}
