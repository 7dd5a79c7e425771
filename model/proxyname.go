package model

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
