// Package config reads kube-proxy's flags and kube-proxy's configuration file, so that
// kube-vmap can replace kube-proxy without changes of either.
//
//	flags ----------> Flags ---+
//	                           +--> defaults --> flags that win --> validate --> Config --> Loop
//	--config file --> decode --+
//
// The file is a KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1, the type that
// kube-proxy 1.37 reads. Unknown and duplicate fields are a warning, as there. With a file,
// flags for its fields are ignored, except --hostname-override and those of logging.
//
// Defaults are kube-proxy's, with two exceptions:
//
//   - mode is nftables. "iptables" and "ipvs" run as nftables too, after a warning, with
//     the fields of their sections that nftables has.
//   - minSyncPeriod is 0, in every section, where kube-proxy waits a second: a sync there
//     costs what all Services cost, and here what has changed. A value that is set is used.
//
// Three things follow from running as nftables in any mode: nodePortAddresses is ["primary"] if not
// set; ipvs.scheduler selects the scheduler, by the names of IPVS, and is random if not set; and
// kube-proxy's --iptables-sync-period and --iptables-min-sync-period set the periods of nftables,
// as they do in kube-proxy in that mode.
//
// nodePortAddresses may mix the words all, primary and localhost with ranges, as in kube-proxy
// 1.37, which refused this before. NodePorts on localhost (KEP-6032) need the word or a loopback
// range only; kube-proxy wants the feature gate, too, which here only disables them.
//
// Some flags are extensions of kube-proxy's (see flag_table.go), have no field in the file, and
// apply with a file, too.
//
// What --write-config-to writes and /configz shows has a syncPeriod of 30s in unused
// sections, too. kube-proxy writes 0s there without a file, and reads that as 30s.
//
// Settings that have no effect here are accepted, and one warning names those that do not
// have their default. No feature gate is refused.
//
// Nothing here opens a socket, writes a sysctl or reads the Node.
package config
