package model

// Options are the cluster-wide choices that shape frontends.
type Options struct {
	// MasqueradeAll masquerades every connection to a ClusterIP.
	MasqueradeAll bool
	// DetectsPods tells for each family whether the node can tell a pod's
	// packet from others; without that, ClusterIP traffic is not masqueraded.
	DetectsPods [len(Families)]bool
	// Scheduler is that of Services which name none; zero means [SchedulerRandom].
	Scheduler Scheduler
	// StrictSourceRanges closes the load balancer addresses of a family in which a
	// Service has no source ranges while it has some in the other. kube-proxy
	// leaves them open.
	StrictSourceRanges bool
	// IgnoreExternalIPs does without the external IPs of Services.
	IgnoreExternalIPs bool
	// TCPFlowEndpoints makes pools of TCP name their flows, as those of UDP do.
	TCPFlowEndpoints bool
	// Budget limits what authors of Services can take of a node.
	Budget Budget
}

// clusterIPMasquerade is the treatment of connections to a ClusterIP.
func (o Options) clusterIPMasquerade(f Family) Masquerade {
	switch {
	case o.MasqueradeAll:
		return MasqueradeAlways
	case o.DetectsPods[f]:
		return MasqueradeOffPod
	}
	return MasqueradeNever
}
