package config

import (
	logsapi "k8s.io/component-base/logs/api/v1"
)

// addOtherModes adds flags that have an effect in other values of --proxy-mode.
func (f *Flags) addOtherModes(s flagSection) {
	p := &f.proxy
	s.number(p.IPTables.MasqueradeBit, "iptables-masquerade-bit", "iptables.masqueradeBit",
		"no effect unless --proxy-mode is iptables or ipvs: `bit`, 0 to 31, of the packet mark that requests masquerading")
	s.duration(&p.IPVS.SyncPeriod, "ipvs-sync-period", "ipvs.syncPeriod",
		"no effect unless --proxy-mode is ipvs: `time` as in --iptables-sync-period")
	s.duration(&p.IPVS.MinSyncPeriod, "ipvs-min-sync-period", "ipvs.minSyncPeriod",
		"no effect unless --proxy-mode is ipvs: `time` as in --iptables-min-sync-period (default 0s)")
	s.list(&p.IPVS.ExcludeCIDRs, "ipvs-exclude-cidrs", "ipvs.excludeCIDRs",
		"no effect except in the cleanup after kube-proxy: `ranges` whose IPVS virtual servers are kept")
}

// addUnused adds flags that are accepted so that a kube-proxy command line works.
func (f *Flags) addUnused(s flagSection) {
	p := &f.proxy
	s.boolean(&p.IPVS.StrictARP, "ipvs-strict-arp", "ipvs.strictARP", "no effect: for IPVS")
	s.duration(&p.IPVS.TCPTimeout, "ipvs-tcp-timeout", "ipvs.tcpTimeout", "no effect: for IPVS")
	s.duration(&p.IPVS.TCPFinTimeout, "ipvs-tcpfin-timeout", "ipvs.tcpFinTimeout", "no effect: for IPVS")
	s.duration(&p.IPVS.UDPTimeout, "ipvs-udp-timeout", "ipvs.udpTimeout", "no effect: for IPVS")
	s.boolean(p.IPTables.LocalhostNodePorts, "iptables-localhost-nodeports", "iptables.localhostNodePorts",
		"no effect: use --nodeport-addresses for NodePorts on 127.0.0.1")
	s.duration(&p.ConfigSyncPeriod, "config-sync-period", "configSyncPeriod",
		"no effect: objects are watched, not listed periodically")
	s.text(&p.ShowHiddenMetricsForVersion, "show-hidden-metrics-for-version", "showHiddenMetricsForVersion",
		"no effect: no metric is hidden")
	s.String("boot-id-file", "/proc/sys/kernel/random/boot_id", "no effect")
	s.String("machine-id-file", "/etc/machine-id,/var/lib/dbus/machine-id", "no effect")
}

// addUnusedLogging adds the logging flags without effect.
func addUnusedLogging(s flagSection, c *logsapi.LoggingConfiguration) {
	const streams = "no effect: the log is one stream, on stderr"
	s.value(logsapi.VModuleConfigurationPflag(&c.VModule), "vmodule", "logging.vmodule", "no effect: -v applies to all files")
	s.duration(&c.FlushFrequency.Duration, "log-flush-frequency", "logging.flushFrequency",
		"no effect: the log is not buffered")
	s.boolean(&c.Options.Text.SplitStream, "log-text-split-stream", "logging.options.text.splitStream", streams)
	s.boolean(&c.Options.JSON.SplitStream, "log-json-split-stream", "logging.options.json.splitStream", streams)
	s.value(&c.Options.Text.InfoBufferSize, "log-text-info-buffer-size", "logging.options.text.infoBufferSize", streams)
	s.value(&c.Options.JSON.InfoBufferSize, "log-json-info-buffer-size", "logging.options.json.infoBufferSize", streams)
}
