// Package config is what kube-vmap is told: kube-proxy's flags and kube-proxy's
// configuration file, so that it can take kube-proxy's place without either
// being touched.
//
//	flags ----------> Flags ---+
//	                           +--> defaults --> flags that win --> checks --> Config
//	--config file --> decode --+                                                 |
//	                    ^                                                        | Watch
//	                    +--------------- read again at each change --------------+--> ErrChanged
//
// The file is a KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1, the
// type kube-proxy 1.36 reads. Unknown and duplicate fields are a warning, as
// they are there. With a file, flags that stand for one of its fields are
// ignored, but for --hostname-override and those of logging.
//
// Defaults are kube-proxy's, but for two:
//
//   - mode is nftables. "iptables" and "ipvs" are run as nftables too, after a
//     warning, with what their sections have in common with nftables.
//   - minSyncPeriod is 0, in every section, where kube-proxy waits a second: it
//     does so because a sync there costs what all Services cost, and here it
//     costs what has changed. A value that is set is honoured.
//
// Two things follow from running as nftables whatever the mode:
// nodePortAddresses is ["primary"] in all of them if it is not set, and
// kube-proxy's --iptables-sync-period and --iptables-min-sync-period set the
// periods of nftables, as they do in kube-proxy in that mode.
//
// What has no meaning here is accepted; if it is set to something other than
// its default, it is named in one warning. No feature gate is refused.
//
// Config only says what is wanted. Nothing here opens a socket, writes a sysctl
// or reads the Node.
package config
