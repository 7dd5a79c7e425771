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
// Three things follow from running as nftables whatever the mode:
// nodePortAddresses is ["primary"] in all of them if it is not set;
// ipvs.scheduler says in all of them how endpoints are chosen, by the names of
// IPVS, or random, which it is if nothing is said; and kube-proxy's
// --iptables-sync-period and --iptables-min-sync-period set the periods of
// nftables, as they do in kube-proxy in that mode.
//
// nodePortAddresses may have primary and ranges side by side, and the word
// localhost, as of kube-proxy 1.37 (KEP-6032); before, kube-proxy refuses both.
//
// Some flags are our own, and so have no field in the file and count beside one:
// --manifests, --strict-source-ranges, --end-tcp-flows, --drop-invalid, --protect-tables,
// --count-connections, --endpoint-metrics, --status-socket, --status-page.
//
// What --write-config-to writes and /configz shows has a syncPeriod of 30s in the
// sections that are not in use, too. kube-proxy writes 0s there if there is no
// file, and reads that as 30s.
//
// What has no meaning here is accepted; if it is set to something other than
// its default, it is named in one warning. No feature gate is refused.
//
// Config only says what is wanted. Nothing here opens a socket, writes a sysctl
// or reads the Node.
package config
