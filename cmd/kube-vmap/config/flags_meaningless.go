package config

import (
	logsapi "k8s.io/component-base/logs/api/v1"
)

// addOtherModes adds flags that mean something if --proxy-mode is another one.
func (f *Flags) addOtherModes(s flagSection) {
	p := &f.proxy
	s.number(p.IPTables.MasqueradeBit, "iptables-masquerade-bit", "iptables.masqueradeBit",
		"no meaning here unless --proxy-mode is iptables or ipvs: `bit`, 0 to 31, of the packet mark that asks for masquerade")
	s.period(&p.IPVS.SyncPeriod, "ipvs-sync-period", "ipvs.syncPeriod",
		"no meaning here unless --proxy-mode is ipvs: `time` as of --iptables-sync-period")
	s.period(&p.IPVS.MinSyncPeriod, "ipvs-min-sync-period", "ipvs.minSyncPeriod",
		"no meaning here unless --proxy-mode is ipvs: `time` as of --iptables-min-sync-period (default 0s)")
	s.list(&p.IPVS.ExcludeCIDRs, "ipvs-exclude-cidrs", "ipvs.excludeCIDRs",
		"no meaning here but once: `ranges` whose IPVS virtual servers stay when what kube-proxy left is removed")
}

// addMeaningless adds the flags that are accepted so that what starts
// kube-proxy can start us.
func (f *Flags) addMeaningless(s flagSection) {
	p := &f.proxy
	s.yes(&p.IPVS.StrictARP, "ipvs-strict-arp", "ipvs.strictARP", "no meaning here: of IPVS")
	s.period(&p.IPVS.TCPTimeout, "ipvs-tcp-timeout", "ipvs.tcpTimeout", "no meaning here: of IPVS")
	s.period(&p.IPVS.TCPFinTimeout, "ipvs-tcpfin-timeout", "ipvs.tcpFinTimeout", "no meaning here: of IPVS")
	s.period(&p.IPVS.UDPTimeout, "ipvs-udp-timeout", "ipvs.udpTimeout", "no meaning here: of IPVS")
	s.yes(p.IPTables.LocalhostNodePorts, "iptables-localhost-nodeports", "iptables.localhostNodePorts",
		"no meaning here: NodePorts on 127.0.0.1 are for --nodeport-addresses to say, in every mode")
	s.period(&p.ConfigSyncPeriod, "config-sync-period", "configSyncPeriod",
		"no meaning here: the API server says what has changed, and is not asked again")
	s.text(&p.ShowHiddenMetricsForVersion, "show-hidden-metrics-for-version", "showHiddenMetricsForVersion",
		"no meaning here: no metric is hidden")
	s.String("boot-id-file", "/proc/sys/kernel/random/boot_id", "no meaning here")
	s.String("machine-id-file", "/etc/machine-id,/var/lib/dbus/machine-id", "no meaning here")
}

// addMeaninglessLogging adds the rest of the flags of logging.
func addMeaninglessLogging(s flagSection, c *logsapi.LoggingConfiguration) {
	const streams = "no meaning here: the log is one stream, to stderr"
	s.value(logsapi.VModuleConfigurationPflag(&c.VModule), "vmodule", "logging.vmodule", "no meaning here: -v is for all files")
	s.period(&c.FlushFrequency.Duration, "log-flush-frequency", "logging.flushFrequency",
		"no meaning here: the log is not buffered")
	s.yes(&c.Options.Text.SplitStream, "log-text-split-stream", "logging.options.text.splitStream", streams)
	s.yes(&c.Options.JSON.SplitStream, "log-json-split-stream", "logging.options.json.splitStream", streams)
	s.value(&c.Options.Text.InfoBufferSize, "log-text-info-buffer-size", "logging.options.text.infoBufferSize", streams)
	s.value(&c.Options.JSON.InfoBufferSize, "log-json-info-buffer-size", "logging.options.json.infoBufferSize", streams)
}
