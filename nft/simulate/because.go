package simulate

import "kube-vmap/nft"

// ReasonNoLocalEndpoint is what it means that a packet is dropped because no endpoint may serve it
// here, while others could elsewhere.
const ReasonNoLocalEndpoint = "the Service has endpoints, but its policy is Local and none of them is on this node"

// verdictReason is what it means that a rule of ours refuses or drops a packet, by the set
// that the packet was looked for in last.
func verdictReason(k nft.SetKind, v Verdict) string {
	switch k {
	case nft.SetRestricted, nft.SetAllowedSources:
		return "the client is in none of the source ranges of the Service"
	case nft.SetNoEndpointServices, nft.SetNoEndpointNodePorts:
		if v == VerdictDropped {
			return ReasonNoLocalEndpoint
		}
		return "the Service has no endpoint that is ready"
	case nft.SetClusterIPs:
		return "the address is a Service's, which has no such port"
	case nft.SetServiceCIDRs:
		return "no Service has this address, which is in a range of ClusterIPs"
	case nft.SetEndpointIPs:
		return "connection tracking cannot place the packet"
	}
	return ""
}
