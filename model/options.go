package model

// Options are the cluster-wide settings that shape frontends.
type Options struct {
	// MasqueradeAll masquerades every connection to a ClusterIP.
	MasqueradeAll bool
	// DetectsPods reports, by family, whether the node can distinguish packets of pods
	// from others. Without that, traffic to ClusterIPs is not masqueraded.
	DetectsPods [len(Families)]bool
	// Scheduler is for Services that do not name one; zero means [SchedulerRandom].
	Scheduler Scheduler
	// PassiveChecks is for Services that do not say; zero means [PassiveChecksOff].
	PassiveChecks PassiveChecks
	// MaxAvoidedPercent is the part of a list of endpoints that may be avoided, rounded down.
	MaxAvoidedPercent int
	// StrictSourceRanges closes the load balancer addresses of a family without source
	// ranges if the Service has source ranges for the other family. kube-proxy leaves
	// them open.
	StrictSourceRanges bool
	// IgnoreExternalIPs ignores the external IPs of Services.
	IgnoreExternalIPs bool
	// TCPFlowEndpoints fills [Pool].FlowEndpoints for TCP, too, and not only for UDP.
	TCPFlowEndpoints bool
	// Budget limits how much of a node the authors of Services can use.
	Budget Budget
}

func (o Options) clusterIPMasquerade(f Family) Masquerade {
	switch {
	case o.MasqueradeAll:
		return MasqueradeAlways
	case o.DetectsPods[f]:
		return MasqueradeOffPod
	}
	return MasqueradeNever
}

// LabelServiceProxyName is the label that leaves a Service to the proxy of this name (KEP-2447).
const LabelServiceProxyName = "service.kubernetes.io/service-proxy-name"

// proxyName is the same in the whole process, as its tables in the kernel are.
var proxyName string

// SetProxyName sets the name of this proxy, before anything else. The name that it has is only read:
// tests run commands in parallel.
func SetProxyName(name string) {
	if name != proxyName {
		proxyName = name
	}
}

// ProxyName returns the name of this proxy; empty for the node's own one, which serves all Services
// without the label.
func ProxyName() string { return proxyName }

// Serves reports whether a Service with these labels is for this proxy.
func Serves(labels map[string]string) bool {
	name, labelled := labels[LabelServiceProxyName]
	return name == proxyName && labelled == (proxyName != "")
}

// Named returns the name of something that each proxy of a node has: "kube-vmap", or
// "kube-vmap.NAME". No other name of ours has a point.
func Named(base string) string {
	if proxyName == "" {
		return base
	}
	return base + "." + proxyName
}
