package model

// Options are the cluster-wide choices that shape frontends.
type Options struct {
	// MasqueradeAll masquerades every connection to a ClusterIP.
	MasqueradeAll bool
	// DetectsPods tells for each family whether the node can tell a pod's
	// packet from others; without that, ClusterIP traffic is not masqueraded.
	DetectsPods [len(Families)]bool
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
