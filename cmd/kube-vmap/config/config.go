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
)

// The values of mode that are accepted. All of them run as nftables.
const (
	ModeNFTables v1alpha1.ProxyMode = "nftables"
	ModeIPTables v1alpha1.ProxyMode = "iptables"
	ModeIPVS     v1alpha1.ProxyMode = "ipvs"
)

// The values of detectLocalMode: how traffic from this node's pods is told from
// other traffic.
const (
	LocalModeClusterCIDR         v1alpha1.LocalMode = "ClusterCIDR"
	LocalModeNodeCIDR            v1alpha1.LocalMode = "NodeCIDR"
	LocalModeBridgeInterface     v1alpha1.LocalMode = "BridgeInterface"
	LocalModeInterfaceNamePrefix v1alpha1.LocalMode = "InterfaceNamePrefix"
)

// Config is the configuration of a process: complete, and found valid. Flags
// makes it.
type Config struct {
	// Proxy is kube-proxy's configuration with every default filled in, kind and
	// apiVersion too, so that it can be shown as it is (/configz). The sections
	// iptables, ipvs and nftables are as they were given; the methods say what
	// the one that Mode selects means. HealthzBindAddress and MetricsBindAddress
	// are host:port, or empty if that server is not wanted.
	Proxy v1alpha1.KubeProxyConfiguration

	Options

	File string // where Proxy was read from; empty if the flags set it

	// Warnings are what whoever wrote the configuration should know, each a line
	// for the log.
	Warnings []string

	flags *Flags
	text  string // of File
}

// Source says where Services are read from.
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

// NodeName is the name of this node's Node object: hostnameOverride, or else
// the host's name; trimmed and in lower case.
func (c *Config) NodeName() (string, error) {
	name := c.Proxy.HostnameOverride
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("%s: not given, and %w", c.name("hostnameOverride"), err)
		}
		name = host
	}
	if name = nodeName(name); name == "" {
		return "", fmt.Errorf("%s: no name is left without white space", c.name("hostnameOverride"))
	}
	return name, nil
}

func nodeName(host string) string { return strings.ToLower(strings.TrimSpace(host)) }

// ProxyPorts are those on which a Service proxy of this node serves health and
// metrics: by default, and by this configuration, which kube-proxy may have too.
// Sorted, each once.
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

// ClusterCIDRs are the ranges that tell pods by their addresses, one for each
// IP family. They are invalid where none was given, and in any detectLocalMode
// but ClusterCIDR.
func (c *Config) ClusterCIDRs() [len(model.Families)]netip.Prefix {
	var ranges [len(model.Families)]netip.Prefix
	if c.Proxy.DetectLocalMode != LocalModeClusterCIDR {
		return ranges
	}
	for _, s := range splitRanges(c.Proxy.ClusterCIDR) {
		if r, err := parseRange(s); err == nil {
			ranges[model.FamilyOf(r.Addr())] = r
		}
	}
	return ranges
}

// splitRanges takes a clusterCIDR apart.
func splitRanges(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// ExcludeCIDRs are the ranges whose IPVS virtual servers are not kube-proxy's, and
// so stay when what kube-proxy left is removed.
func (c *Config) ExcludeCIDRs() (ranges []netip.Prefix) {
	for _, s := range c.Proxy.IPVS.ExcludeCIDRs {
		if r, err := parseRange(s); err == nil {
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// Verbosity is the -v of klog: 0 is the least, and each level tells more.
func (c *Config) Verbosity() int { return int(c.Proxy.Logging.Verbosity) }

// LogFormat is "text" or "json".
func (c *Config) LogFormat() string { return c.Proxy.Logging.Format }

// Feature tells whether one of the feature gates that have a meaning here is
// open: ComponentFlagz, ComponentStatusz and AllowServiceExternalIPs, all open by
// default. Any other is closed.
func (c *Config) Feature(gate string) bool {
	open, known := features()[gate]
	if set, ok := c.Proxy.FeatureGates[gate]; ok && known {
		return set
	}
	return open
}

// features are the gates that have a meaning here, with their defaults.
func features() map[string]bool {
	return map[string]bool{"ComponentFlagz": true, "ComponentStatusz": true, externalIPs: true}
}

func isFeature(gate string) bool {
	_, ok := features()[gate]
	return ok
}

// name is what the user calls a field: the flag that sets it if it is one that
// counts, else its path in the file.
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

// named has the errors tell the flags, and apart from those the file that is to
// blame.
func (c *Config) named(errs field.ErrorList) error {
	var flags, file []error
	for _, err := range errs {
		path := err.Field
		err.Field = c.name(path)
		if c.File == "" || err.Field != path {
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
