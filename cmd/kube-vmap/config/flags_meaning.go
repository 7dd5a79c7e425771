package config

import (
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kube-proxy/config/v1alpha1"
)

func (f *Flags) addGeneral(s flagSection) {
	s.text(&f.file, "config", "",
		"`file` with a KubeProxyConfiguration; flags that stand for one of its fields are then ignored, "+
			"but for --hostname-override and those of logging. Each change of it that is valid ends the process")
	s.text(&f.manifests, "manifests", "",
		"folder or file (`path`) with Services, EndpointSlices, ServiceCIDRs and Nodes as YAML or JSON, "+
			"read and watched in place of the API server. Not one of kube-proxy's")
	s.text(&f.writeConfigTo, "write-config-to", "",
		"`file` to write the configuration to, with all defaults, and exit")
	s.yes(&f.initOnly, "init-only", "",
		"do only what needs full root privileges, such as setting sysctls, and exit; to run then takes CAP_NET_ADMIN alone")
	s.yes(&f.cleanup, "cleanup", "", "remove all rules of kube-vmap and exit")
}

func (f *Flags) addKubernetes(s flagSection) {
	c := &f.proxy.ClientConnection
	s.text(&c.Kubeconfig, "kubeconfig", "clientConnection.kubeconfig",
		"kubeconfig `file` with the API server and the credentials for it; without it and --master, those of the Pod")
	s.text(&f.master, "master", "", "`URL` of the API server, in place of the one in the kubeconfig")
	s.text(&f.hostnameOverride, "hostname-override", "hostnameOverride",
		"`name` of this node's Node object (default the host's name in lower case)")
	s.text(&c.ContentType, "kube-api-content-type", "clientConnection.contentType",
		"media `type` in which objects are asked for")
	s.Float32Var(&c.QPS, "kube-api-qps", c.QPS, "requests to the API server in a second, on average")
	s.sets("kube-api-qps", "clientConnection.qps")
	s.number(&c.Burst, "kube-api-burst", "clientConnection.burst", "requests to the API server that may go at once")
}

func (f *Flags) addTraffic(s flagSection) {
	p := &f.proxy
	s.value(word[v1alpha1.ProxyMode]{&p.Mode}, "proxy-mode", "mode",
		"`mode`: nftables; or iptables or ipvs, which run as nftables too, after a warning")
	s.yes(&p.NFTables.MasqueradeAll, "masquerade-all", "", "masquerade all traffic to ClusterIPs, that from pods too")
	s.sets("masquerade-all", "nftables.masqueradeAll", "iptables.masqueradeAll")
	s.list(&p.NodePortAddresses, "nodeport-addresses", "nodePortAddresses",
		"`ranges` of the node's addresses on which NodePorts answer; among or in place of them the word primary, "+
			"for the node's primary address of each IP family, and the word localhost, for 127.0.0.1 and ::1 "+
			"(TCP only, from programs of the node). An IP family for which nothing is listed is not limited: "+
			"its NodePorts answer on all addresses but those of loopback")
	s.text(&p.BindAddress, "bind-address", "bindAddress",
		"`IP` address to take for the node's primary one in place of the one in its Node object; nothing listens on it. "+
			"If it is IPv6, health and metrics are served on IPv6 by default")
	s.text(&p.IPVS.Scheduler, "ipvs-scheduler", "ipvs.scheduler",
		"`scheduler` that chooses endpoints for the Services without the annotation kube-vmap.io/scheduler, "+
			"whatever --proxy-mode is: random, rr, sh or mh (default random); other names of IPVS are accepted, and stand for one of these")
	s.yes(&f.strictSourceRanges, "strict-source-ranges", "",
		"close the load balancer addresses of an IP family to everyone if a Service has source ranges of the other family only; "+
			"otherwise they are open to everyone, as with kube-proxy. Not one of kube-proxy's")
	s.yes(&f.endTCPFlows, "end-tcp-flows", "",
		"end TCP connections whose endpoint is gone at once, rather than when it no longer answers. Not one of kube-proxy's")
	s.yes(&f.dropInvalid, "drop-invalid", "",
		"drop TCP packets of endpoints that connection tracking cannot place, which would have their clients reset "+
			"the connection. Done anyway before Linux 6.1, unless --conntrack-tcp-be-liberal. Not one of kube-proxy's")
	s.yes(&f.protectTables, "protect-tables", "",
		"have the tables belong to this process where the kernel can (Linux 6.9), so that no other program changes them, not even "+
			"nft flush ruleset; otherwise, and elsewhere, what others do to them is noticed and undone. Not one of kube-proxy's")
	s.yes(&f.countConnections, "count-connections", "",
		"count the connections of each address of a Service and each of its endpoints, in the kernel. Not one of kube-proxy's")
	s.period(&p.NFTables.SyncPeriod, "iptables-sync-period", "",
		"`time` (30s, 1m): if a change takes more than twice that to reach the kernel, /healthz says so. "+
			"In spite of its name it is that of nftables too, as in kube-proxy")
	s.sets("iptables-sync-period", "nftables.syncPeriod", "iptables.syncPeriod")
	s.period(&p.NFTables.MinSyncPeriod, "iptables-min-sync-period", "",
		"least `time` between two syncs; changes wait for each other. With 0s each is applied at once: "+
			"it costs what has changed, not what there is (default 0s, where kube-proxy has 1s)")
	s.sets("iptables-min-sync-period", "nftables.minSyncPeriod", "iptables.minSyncPeriod")
}

func (f *Flags) addPods(s flagSection) {
	p := &f.proxy
	s.value(word[v1alpha1.LocalMode]{&p.DetectLocalMode}, "detect-local-mode", "detectLocalMode",
		"`how` traffic from this node's pods is recognised; what else comes to a ClusterIP is masqueraded. "+
			"One of ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix")
	s.text(&p.ClusterCIDR, "cluster-cidr", "clusterCIDR",
		"`ranges` of all pods' addresses, at most one for each IP family, separated by a comma, for ClusterCIDR. "+
			"Without one, connections to ClusterIPs keep their source unless --masquerade-all, "+
			"and pods count as clients from outside for externalTrafficPolicy Local")
	s.text(&p.DetectLocal.BridgeInterface, "pod-bridge-interface", "detectLocal.bridgeInterface",
		"`name` of the bridge that pods are on, for BridgeInterface")
	s.text(&p.DetectLocal.InterfaceNamePrefix, "pod-interface-name-prefix", "detectLocal.interfaceNamePrefix",
		"`prefix` of the names of pods' interfaces, for InterfaceNamePrefix")
}

func (f *Flags) addServers(s flagSection) {
	p := &f.proxy
	s.text(&p.HealthzBindAddress, "healthz-bind-address", "healthzBindAddress",
		"`IP:port` of the health server; the port may be left out, an empty one turns the server off")
	s.text(&p.MetricsBindAddress, "metrics-bind-address", "metricsBindAddress",
		"`IP:port` of the metrics server; the port may be left out, an empty one turns the server off")
	s.number(&f.healthzPort, "healthz-port", "healthzBindAddress",
		"deprecated: `port` for --healthz-bind-address if that has none; 0 turns the server off")
	s.number(&f.metricsPort, "metrics-port", "metricsBindAddress",
		"deprecated: `port` for --metrics-bind-address if that has none; 0 turns the server off")
	s.yes(&p.BindAddressHardFail, "bind-address-hard-fail", "bindAddressHardFail",
		"end the process if one of these servers cannot listen, rather than try again")
	s.yes(&p.EnableProfiling, "profiling", "enableProfiling", "serve /debug/pprof with the metrics")
	s.text(&f.statusSocket, "status-socket", "",
		"Unix `socket` on which kube-vmap get, explain, top, diff and bundle ask this process, as root: a path, or @ and a name "+
			"in this network namespace; an empty one turns it off. Not one of kube-proxy's")
	s.yes(&f.statusPage, "status-page", "", "serve a page with the state of all Services as /status/ with the metrics. Not one of kube-proxy's")
	s.yes(&f.endpointMetrics, "endpoint-metrics", "",
		"have a metric of the connections of each endpoint, not of each Service port only. Not one of kube-proxy's")
	s.value(cliflag.NewMapStringBool(&p.FeatureGates), "feature-gates", "featureGates",
		"`gates` as name=true or name=false, separated by commas: ComponentFlagz and ComponentStatusz "+
			"serve /flagz and /statusz with the metrics, AllowServiceExternalIPs serves the external IPs of Services "+
			"(all true by default). No other has a meaning here, and none is refused")
}

func (f *Flags) addNode(s flagSection) {
	c := &f.proxy.Conntrack
	s.number(f.proxy.OOMScoreAdj, "oom-score-adj", "oomScoreAdj",
		"`score` from -1000 to 1000 for this process when the kernel is out of memory; the lowest is spared longest")
	s.number(c.MaxPerCore, "conntrack-max-per-core", "conntrack.maxPerCore",
		"`connections` tracked for each CPU core; 0 leaves the limit as it is, whatever --conntrack-min says")
	s.number(c.Min, "conntrack-min", "conntrack.min", "`connections` tracked at least, however few the cores")
	s.period(c.TCPEstablishedTimeout, "conntrack-tcp-timeout-established", "conntrack.tcpEstablishedTimeout",
		"`time` for which an idle TCP connection is remembered; 0s leaves it as it is")
	s.period(c.TCPCloseWaitTimeout, "conntrack-tcp-timeout-close-wait", "conntrack.tcpCloseWaitTimeout",
		"`time` for which a TCP connection in CLOSE_WAIT is remembered; 0s leaves it as it is")
	s.yes(&c.TCPBeLiberal, "conntrack-tcp-be-liberal", "conntrack.tcpBeLiberal",
		"do not take TCP packets outside of the window for invalid")
	s.period(&c.UDPTimeout, "conntrack-udp-timeout", "conntrack.udpTimeout",
		"`time` for which UDP without an answer is remembered; 0s leaves it as it is")
	s.period(&c.UDPStreamTimeout, "conntrack-udp-timeout-stream", "conntrack.udpStreamTimeout",
		"`time` for which UDP with answers is remembered; 0s leaves it as it is")
}

// addLogging adds those of the flags of logging that have a meaning here.
func addLogging(s flagSection, c *logsapi.LoggingConfiguration) {
	s.VarP(logsapi.VerbosityLevelPflag(&c.Verbosity), "v", "v",
		"`level` of the log: 2 tells of each applied batch, 4 of its content too")
	s.sets("v", "logging.verbosity")
	s.text(&c.Format, "logging-format", "logging.format", "`format` of the log: text or json")
}
