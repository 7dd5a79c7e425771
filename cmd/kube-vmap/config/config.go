// Package config reads kube-proxy's flags and kube-proxy's configuration file:
// kube-vmap can replace kube-proxy without changes of either.
//
//	flags ----------> Flags ---+
//	                           +--> defaults --> flags that win --> validate --> Config --> Loop
//	--config file --> decode --+
//
// The file is a KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1, the type that
// kube-proxy 1.37 reads. Unknown and duplicate fields are a warning, as there. With a file,
// flags for its fields are ignored, except --hostname-override and flags of logging.
//
// docs/configuration.md has what differs from kube-proxy. In addition, ipvs.scheduler selects the
// scheduler in any mode, by the names of IPVS, and kube-proxy's --iptables-sync-period and
// --iptables-min-sync-period set the periods of nftables, as they do in kube-proxy in that mode.
// minSyncPeriod is 0 by default, because a sync costs what has changed, and in kube-proxy what all
// Services cost.
//
// Some flags are extensions of kube-proxy's (see flag_table.go), have no field in the file, and
// apply with a file, too.
//
// What --write-config-to writes and /configz shows has a syncPeriod of 30s in unused
// sections, too. kube-proxy writes 0s there without a file, and reads that as 30s.
//
// Nothing here opens a socket, writes a sysctl or reads the Node.
package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-proxy/config/v1alpha1"

	"kube-vmap/model"
	"kube-vmap/sync/source/convert"
)

// The values of mode that are accepted. All of them run as nftables.
const (
	ModeNFTables v1alpha1.ProxyMode = "nftables"
	ModeIPTables v1alpha1.ProxyMode = "iptables"
	ModeIPVS     v1alpha1.ProxyMode = "ipvs"
)

// The values of detectLocalMode: how traffic from this node's pods is recognised.
const (
	LocalModeClusterCIDR         v1alpha1.LocalMode = "ClusterCIDR"
	LocalModeNodeCIDR            v1alpha1.LocalMode = "NodeCIDR"
	LocalModeBridgeInterface     v1alpha1.LocalMode = "BridgeInterface"
	LocalModeInterfaceNamePrefix v1alpha1.LocalMode = "InterfaceNamePrefix"
)

// Config is a complete and valid configuration. See [Flags.Config].
type Config struct {
	// Proxy is kube-proxy's configuration with all defaults, kind and apiVersion, as
	// /configz shows it. The sections iptables, ipvs and nftables are as given; methods
	// return the values of the one that Mode selects. HealthzBindAddress and
	// MetricsBindAddress are host:port, or empty to disable that server.
	Proxy v1alpha1.KubeProxyConfiguration

	Options

	File string // where Proxy was read from; empty if the flags set it

	// Warnings are for the author of the configuration, each a line for the log.
	Warnings []string

	flags          *Flags
	nodePortsUnset bool // nodePortAddresses is only a default
	modeUnset      bool // the same of mode
}

// Source returns where Services are read from, for the log.
func (c *Config) Source() string {
	switch {
	case c.Manifests != "":
		return "manifests " + c.Manifests
	case c.Master != "":
		return "API server " + c.Master
	case c.Proxy.ClientConnection.Kubeconfig != "":
		return "kubeconfig " + c.Proxy.ClientConnection.Kubeconfig
	}
	return "API server of the cluster this is a Pod of"
}

// NodeName returns the name of this node's Node object: hostnameOverride, or else the
// host's name; trimmed and in lower case.
func (c *Config) NodeName() (string, error) {
	name := c.Proxy.HostnameOverride
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("%s: not set, and %w", c.name("hostnameOverride"), err)
		}
		name = host
	}
	if name = nodeName(name); name == "" {
		return "", fmt.Errorf("%s: the name is only white space", c.name("hostnameOverride"))
	}
	return name, nil
}

func nodeName(host string) string { return strings.ToLower(strings.TrimSpace(host)) }

// ProxyPorts returns the ports on which a Service proxy of this node serves health and
// metrics: the defaults, and the ports of this configuration, which kube-proxy may use too.
func (c *Config) ProxyPorts() []uint16 {
	ports := []uint16{healthzPort, metricsPort}
	for _, address := range []string{c.Proxy.HealthzBindAddress, c.Proxy.MetricsBindAddress} {
		if a, err := netip.ParseAddrPort(address); err == nil && a.Port() != 0 {
			ports = append(ports, a.Port())
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// ClusterCIDRs returns the ranges of pods' addresses, one for each IP family. They are
// invalid if not set, and in any detectLocalMode but ClusterCIDR.
func (c *Config) ClusterCIDRs() [len(model.Families)]netip.Prefix {
	var ranges [len(model.Families)]netip.Prefix
	if c.Proxy.DetectLocalMode != LocalModeClusterCIDR {
		return ranges
	}
	for _, s := range splitRanges(c.Proxy.ClusterCIDR) {
		if r, err := convert.ParsePrefix(nil, s); err == nil {
			ranges[model.FamilyOf(r.Addr())] = r
		}
	}
	return ranges
}

func splitRanges(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// ExcludeCIDRs returns the ranges whose IPVS virtual servers are not kube-proxy's, and are
// kept in the cleanup after kube-proxy.
func (c *Config) ExcludeCIDRs() (ranges []netip.Prefix) {
	for _, s := range c.Proxy.IPVS.ExcludeCIDRs {
		if r, err := convert.ParsePrefix(nil, s); err == nil {
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// NFTablesIsSet reports whether the mode is nftables, and not only by default.
func (c *Config) NFTablesIsSet() bool { return c.Proxy.Mode == ModeNFTables && !c.modeUnset }

// Verbosity returns the -v of klog; 0 is the least.
func (c *Config) Verbosity() int { return int(c.Proxy.Logging.Verbosity) }

// Feature reports whether a feature gate is enabled. Supported ones are by default, others never.
func (c *Config) Feature(gate string) bool {
	set, ok := c.Proxy.FeatureGates[gate]
	return slices.Contains(features, gate) && (set || !ok)
}

// localhostGate is the gate of NodePorts on localhost (KEP-6032). In kube-proxy it is
// disabled by default, because it is alpha; here the word localhost is enough.
const localhostGate = "KubeProxyNFTablesLocalhostNodePorts"

// NativeHistograms is the gate of Prometheus' native histograms (KEP-5808).
const NativeHistograms = "NativeHistograms"

var features = []string{
	"ComponentFlagz", "ComponentStatusz", externalIPs, localhostGate, NativeHistograms,
}

// name returns the user's name of a field: the flag that sets it, if it is used, or its
// path in the file.
func (c *Config) name(path string) string {
	flag := c.flags.flagOf(path)
	if flag == nil || c.File != "" && !(flag.Changed && wins(path)) {
		return path
	}
	if flag.Shorthand != "" {
		return "-" + flag.Shorthand
	}
	return "--" + flag.Name
}

func (c *Config) named(errs field.ErrorList) error {
	var flags, file []error
	for _, err := range errs {
		path := err.Field
		err.Field = c.name(path)
		if c.File == "" || err.Field != path || strings.HasPrefix(path, "--") {
			flags = append(flags, err)
		} else {
			file = append(file, err)
		}
	}
	if len(file) > 0 {
		flags = append(flags, fmt.Errorf("%s: %w", c.File, errors.Join(file...)))
	}
	return errors.Join(flags...)
}
