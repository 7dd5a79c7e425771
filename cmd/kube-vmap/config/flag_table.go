package config

import (
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

func (f *Flags) addGeneral(s flagSection) {
	s.add(&f.file, "config", "",
		"`file` with a KubeProxyConfiguration; flags for its fields are then ignored, "+
			"except --hostname-override and flags of logging")
	s.add(&f.options.Manifests, "manifests", extension,
		"folder or file (`path`) with Services, EndpointSlices, ServiceCIDRs and Nodes as YAML or JSON, "+
			"read and watched instead of the API server")
	s.add(&f.options.ServiceProxyName, "service-proxy-name", extension,
		"serve only the Services whose label service.kubernetes.io/service-proxy-name is this `name`, next to the node's "+
			"own proxy, whose ports it must not have. Tables, status socket and events are named kube-vmap.NAME")
	s.add(&f.options.WriteConfigTo, "write-config-to", "",
		"write the configuration with all defaults to this `file` and exit")
	s.add(&f.options.InitOnly, "init-only", "",
		"do only what needs full root privileges, such as setting sysctls, and exit; the proxy then needs CAP_NET_ADMIN "+
			"alone")
	s.add(&f.options.Cleanup, "cleanup", "",
		"remove all rules of kube-vmap, resume rules of kube-proxy that are suspended, and exit")
}

func (f *Flags) addKubernetes(s flagSection) {
	c := &f.proxy.ClientConnection
	s.add(&c.Kubeconfig, "kubeconfig", "clientConnection.kubeconfig",
		"kubeconfig `file` for the API server; without it and --master, the Pod's service account is used")
	s.add(&f.options.Master, "master", "", "`URL` of the API server, overrides the one in the kubeconfig")
	s.add(&f.hostnameOverride, "hostname-override", "hostnameOverride",
		"`name` of this node's Node object (default the host's name in lower case)")
	s.add(&c.ContentType, "kube-api-content-type", "clientConnection.contentType",
		"media `type` of objects requested from the API server")
	s.add(&c.QPS, "kube-api-qps", "clientConnection.qps", "average requests per second to the API server")
	s.add(&c.Burst, "kube-api-burst", "clientConnection.burst", "maximum burst of requests to the API server")
}

func (f *Flags) addTraffic(s flagSection) {
	p := &f.proxy
	s.add((*string)(&p.Mode), "proxy-mode", "mode",
		"`mode`: nftables; or iptables or ipvs, which run as nftables too, with a warning",
		string(ModeNFTables), string(ModeIPTables), string(ModeIPVS))
	s.add(&p.NFTables.MasqueradeAll, "masquerade-all", "nftables.masqueradeAll iptables.masqueradeAll",
		"masquerade all traffic to ClusterIPs, including traffic from pods")
	s.add(&p.NodePortAddresses, "nodeport-addresses", "nodePortAddresses",
		"`ranges` of the node's addresses on which NodePorts answer. May contain the word primary, "+
			"for the node's primary address of each IP family, the word localhost, for 127.0.0.1 and ::1 "+
			"(TCP only, from programs on the node), and the word all, for all addresses except loopback. "+
			"An IP family that is not listed is not limited",
		primary, all, localhost)
	s.add(&p.BindAddress, "bind-address", "bindAddress",
		"`IP` address used as the node's primary one instead of the one in its Node object; nothing listens on it. "+
			"If it is IPv6, health and metrics are served on IPv6 by default")
	s.add(&p.IPVS.Scheduler, "ipvs-scheduler", "ipvs.scheduler",
		"`scheduler` for Services without the annotation kube-vmap.io/scheduler, in any --proxy-mode: "+
			"random, rr, sh, mh or lc (default random); other IPVS names are accepted and mapped to one of these",
		"random", "rr", "sh", "mh", "lc")
	s.add(&f.options.StrictSourceRanges, "strict-source-ranges", extension,
		"close the load balancer addresses of an IP family to everyone if a Service has source ranges of the other family "+
			"only; otherwise they are open to everyone, as with kube-proxy")
	s.add(&f.options.AnswerPings, "answer-pings", extension,
		"answer echo requests to ClusterIPs, load balancer and external addresses while a port has an endpoint for all "+
			"clients; at the latter two only what the node would send back by the interface it came from")
	s.add(&f.options.EndTCPFlows, "end-tcp-flows", extension,
		"end TCP connections as soon as their endpoint is removed, not when it stops responding")
	s.add(&f.options.DropInvalid, "drop-invalid", extension,
		"drop TCP packets from endpoints that connection tracking calls invalid, which could make clients reset "+
			"the connection. Always on before Linux 6.1, unless --conntrack-tcp-be-liberal is set")
	s.add(&f.options.ProtectTables, "protect-tables", extension,
		"make the tables belong to this process if the kernel supports it (Linux 6.9), so no other program can "+
			"change them, not even nft flush ruleset; otherwise, changes by other programs are detected and reverted")
	s.add(&f.options.CountConnections, "count-connections", extension,
		"count the connections of each Service address and endpoint in the kernel")
	s.add(&f.options.FastPath, "fast-path", extension,
		"let packets of established TCP and UDP connections to Services bypass routing, connection tracking and all rules "+
			"of the node by a flowtable of nf_tables. It stays off with programs whose rules may "+
			"have to see every packet, and where the kernel has none")
	s.add(&f.options.FastPathAfter, "fast-path-after", extension,
		"`packets` of a connection, in both directions together, after which it takes the --fast-path")
	s.add(&f.options.PassiveHealthChecks, "passive-health-checks", extension,
		"`what` to do about unresponsive endpoints, which reply neither to connections of this node's clients nor "+
			"to probes: off; report, by events, metrics and kube-vmap problems; or avoid, which also gives them no new "+
			"connections. The annotation kube-vmap.io/passive-health-checks of a Service overrides it",
		"off", "report", "avoid")
	s.add(&f.options.PassiveHealthChecksMaxPercent, "passive-health-checks-max-percent", extension,
		"at most `N` percent of the endpoints of a Service port, rounded down, and never the last one, are avoided")
	s.add(&f.options.ScalerDirectory, "scaler-directory", extension,
		"`folder` with the token for kube-vmap-scaler, its certificate and the name of its Service, which the kubelet "+
			"provides. Without them, the demand for Services that scale to zero is not reported")
	s.add(&p.NFTables.SyncPeriod, "iptables-sync-period", "nftables.syncPeriod iptables.syncPeriod",
		"`time` (30s, 1m): /healthz fails if a change takes more than twice as long to reach the kernel. "+
			"Applies to nftables too, as in kube-proxy")
	s.add(&p.NFTables.MinSyncPeriod, "iptables-min-sync-period", "nftables.minSyncPeriod iptables.minSyncPeriod",
		"minimum `time` between two syncs; changes in between are batched. With 0s each change is applied immediately: "+
			"a sync costs what has changed, not what exists (default 0s, unlike kube-proxy's 1s)")
}

func (f *Flags) addPods(s flagSection) {
	p := &f.proxy
	s.add((*string)(&p.DetectLocalMode), "detect-local-mode", "detectLocalMode",
		"`how` traffic from this node's pods is recognised; other traffic to a ClusterIP is masqueraded. "+
			"One of ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix",
		string(LocalModeClusterCIDR), string(LocalModeNodeCIDR), string(LocalModeBridgeInterface),
		string(LocalModeInterfaceNamePrefix))
	s.add(&p.ClusterCIDR, "cluster-cidr", "clusterCIDR",
		"`ranges` of all pods' addresses, at most one for each IP family, separated by a comma, for ClusterCIDR. "+
			"Without one, connections to ClusterIPs keep their source unless --masquerade-all is set, "+
			"and pods count as external clients for externalTrafficPolicy Local")
	s.add(&p.DetectLocal.BridgeInterface, "pod-bridge-interface", "detectLocal.bridgeInterface",
		"`name` of the bridge that pods are attached to, for BridgeInterface")
	s.add(&p.DetectLocal.InterfaceNamePrefix, "pod-interface-name-prefix", "detectLocal.interfaceNamePrefix",
		"`prefix` of the names of pods' interfaces, for InterfaceNamePrefix")
}

func (f *Flags) addTakeover(s flagSection) {
	s.add(&f.options.Probation, "probation", extension,
		"`time` (10m) for which kube-proxy's rules stay in the kernel, suspended, after kube-vmap has taken over. "+
			"If kube-vmap turns out not to work on this node before that, it resumes them in one transaction, removes its "+
			"own rules and stays, not ready. With 0s they are removed immediately")
	s.add(&f.options.KubeProxyMarker, "kube-proxy-marker", extension,
		"`when` tables named kube-proxy, with one chain that sees no packet, stay after that for programs that look for "+
			"them: always, never, or auto, which is where Calico runs and kube-proxy's mode is nftables",
		MarkerAuto, MarkerAlways, MarkerNever)
}

func (f *Flags) addServers(s flagSection) {
	p := &f.proxy
	s.add(&p.HealthzBindAddress, "healthz-bind-address", "healthzBindAddress",
		"`IP:port` of the health server; the port is optional, an empty value disables the server")
	s.add(&p.MetricsBindAddress, "metrics-bind-address", "metricsBindAddress",
		"`IP:port` of the metrics server; the port is optional, an empty value disables the server")
	s.add(&f.healthzPort, "healthz-port", "healthzBindAddress",
		"deprecated: `port` for --healthz-bind-address if that has none; 0 disables the server")
	s.add(&f.metricsPort, "metrics-port", "metricsBindAddress",
		"deprecated: `port` for --metrics-bind-address if that has none; 0 disables the server")
	s.add(&p.BindAddressHardFail, "bind-address-hard-fail", "bindAddressHardFail",
		"end the process if one of these servers cannot listen, instead of retrying")
	s.add(&p.EnableProfiling, "profiling", "enableProfiling", "serve /debug/pprof on the metrics server")
	s.add(&f.options.StatusSocket, "status-socket", extension,
		"Unix `socket` on which this process answers kube-vmap get, explain and other commands, for root only: a path, "+
			"or @ and a name in this network namespace; an empty value disables it")
	s.add(&f.options.EndpointMetrics, "endpoint-metrics", extension,
		"have a connection metric for each endpoint, in addition to the one for each Service port")
	s.add(cliflag.NewMapStringBool(&p.FeatureGates), "feature-gates", "featureGates",
		"`gates` as name=true or name=false, separated by commas: ComponentFlagz and ComponentStatusz "+
			"serve /flagz and /statusz on the metrics server, NativeHistograms serves these to clients that ask for protobuf, "+
			"AllowServiceExternalIPs serves the external IPs of Services, "+localhostGate+
			" allows localhost in --nodeport-addresses (all true by default). Other gates are ignored",
		externalIPs+"=false", "ComponentFlagz=false", "ComponentStatusz=false", localhostGate+"=false",
		NativeHistograms+"=false")
}

func (f *Flags) addNode(s flagSection) {
	c := &f.proxy.Conntrack
	s.add(f.proxy.OOMScoreAdj, "oom-score-adj", "oomScoreAdj",
		"`score` from -1000 to 1000 for this process when the kernel is out of memory; the lowest is killed last")
	s.add(c.MaxPerCore, "conntrack-max-per-core", "conntrack.maxPerCore",
		"maximum tracked `connections` per CPU core; a larger limit stays; 0 does not change the limit, whatever "+
			"--conntrack-min is")
	s.add(c.Min, "conntrack-min", "conntrack.min",
		"minimum limit of tracked `connections`, regardless of --conntrack-max-per-core")
	s.add(c.TCPEstablishedTimeout, "conntrack-tcp-timeout-established", "conntrack.tcpEstablishedTimeout",
		"idle `time` after which an established TCP connection is forgotten; 0s does not change it")
	s.add(c.TCPCloseWaitTimeout, "conntrack-tcp-timeout-close-wait", "conntrack.tcpCloseWaitTimeout",
		"`time` after which a TCP connection in CLOSE_WAIT is forgotten; 0s does not change it")
	s.add(&c.TCPBeLiberal, "conntrack-tcp-be-liberal", "conntrack.tcpBeLiberal",
		"do not treat TCP packets outside the window as invalid")
	s.add(&c.UDPTimeout, "conntrack-udp-timeout", "conntrack.udpTimeout",
		"`time` after which a UDP flow without replies is forgotten; 0s does not change it")
	s.add(&c.UDPStreamTimeout, "conntrack-udp-timeout-stream", "conntrack.udpStreamTimeout",
		"`time` after which a UDP flow with replies is forgotten; 0s does not change it")
}

// addLogging adds the logging flags that have an effect here. It is called a second time
// to let them override the file.
func addLogging(s flagSection, c *logsapi.LoggingConfiguration) {
	s.VarP(logsapi.VerbosityLevelPflag(&c.Verbosity), "v", "v",
		"`level` of the log: 2 logs each applied batch, 4 its content too")
	s.describe("v", "logging.verbosity", []string{"0", "2", "4"})
	s.add(&c.Format, "logging-format", "logging.format", "`format` of the log: text or json", "text", "json")
}

// addOtherModes adds flags that have an effect in other values of --proxy-mode.
func (f *Flags) addOtherModes(s flagSection) {
	p := &f.proxy
	s.add(p.IPTables.MasqueradeBit, "iptables-masquerade-bit", "iptables.masqueradeBit",
		"no effect unless --proxy-mode is iptables or ipvs: `bit`, 0 to 31, of the packet mark that requests masquerading")
	s.add(&p.IPVS.SyncPeriod, "ipvs-sync-period", "ipvs.syncPeriod",
		"no effect unless --proxy-mode is ipvs: `time` as in --iptables-sync-period")
	s.add(&p.IPVS.MinSyncPeriod, "ipvs-min-sync-period", "ipvs.minSyncPeriod",
		"no effect unless --proxy-mode is ipvs: `time` as in --iptables-min-sync-period (default 0s)")
	s.add(&p.IPVS.ExcludeCIDRs, "ipvs-exclude-cidrs", "ipvs.excludeCIDRs",
		"no effect except in the cleanup after kube-proxy: `ranges` whose IPVS virtual servers are kept")
}

// addUnused adds flags that are accepted only for kube-proxy's command lines.
func (f *Flags) addUnused(s flagSection) {
	p := &f.proxy
	s.add(&p.IPVS.StrictARP, "ipvs-strict-arp", "ipvs.strictARP", "no effect: no interface has addresses of Services")
	s.add(&p.IPVS.TCPTimeout, "ipvs-tcp-timeout", "ipvs.tcpTimeout", "no effect: use --conntrack-tcp-timeout-established")
	s.add(&p.IPVS.TCPFinTimeout, "ipvs-tcpfin-timeout", "ipvs.tcpFinTimeout", "no effect: connection tracking has its own")
	s.add(&p.IPVS.UDPTimeout, "ipvs-udp-timeout", "ipvs.udpTimeout", "no effect: use --conntrack-udp-timeout-stream")
	s.add(p.IPTables.LocalhostNodePorts, "iptables-localhost-nodeports", "iptables.localhostNodePorts",
		"no effect: use --nodeport-addresses for NodePorts on 127.0.0.1")
	s.add(&p.ConfigSyncPeriod, "config-sync-period", "configSyncPeriod",
		"no effect: objects are watched, not listed periodically")
	s.add(&p.ShowHiddenMetricsForVersion, "show-hidden-metrics-for-version", "showHiddenMetricsForVersion",
		"no effect: no metric is hidden")
	s.String("boot-id-file", "/proc/sys/kernel/random/boot_id", "no effect")
	s.String("machine-id-file", "/etc/machine-id,/var/lib/dbus/machine-id", "no effect")
}

func addUnusedLogging(s flagSection, c *logsapi.LoggingConfiguration) {
	const streams = "no effect: the log is one stream, on stderr"
	s.add(logsapi.VModuleConfigurationPflag(&c.VModule), "vmodule", "logging.vmodule",
		"no effect: -v applies to all files")
	s.add(&c.FlushFrequency.Duration, "log-flush-frequency", "logging.flushFrequency",
		"no effect: the log is not buffered")
	s.add(&c.Options.Text.SplitStream, "log-text-split-stream", "logging.options.text.splitStream", streams)
	s.add(&c.Options.JSON.SplitStream, "log-json-split-stream", "logging.options.json.splitStream", streams)
	s.add(&c.Options.Text.InfoBufferSize, "log-text-info-buffer-size", "logging.options.text.infoBufferSize", streams)
	s.add(&c.Options.JSON.InfoBufferSize, "log-json-info-buffer-size", "logging.options.json.infoBufferSize", streams)
}
