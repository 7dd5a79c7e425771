package config

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"kube-vmap/model"
	"kube-vmap/sync/source/convert"
)

// warnings returns what is valid, but may not be intended.
func (c *Config) warnings() ([]string, error) {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }

	if mode := c.Proxy.Mode; mode != ModeNFTables {
		s := c.section()
		add("%s: %s runs as nftables, with masqueradeBit and masqueradeAll of %s, syncPeriod and minSyncPeriod of %s",
			c.name("mode"), mode, s.marks, s.periods)
		if c.nodePortsUnset {
			add("%s: NodePorts answer on the node's primary addresses only; in that mode of kube-proxy they do on all, "+
				"as they do here with the word all in %s", c.name("mode"), c.name("nodePortAddresses"))
		}
		if mode == ModeIPVS && c.Proxy.IPVS.Scheduler == "" {
			add("%s: Services choose among their endpoints at random, since %s is not set; in that mode they do in turn (rr)",
				c.name("mode"), c.name("ipvs.scheduler"))
		}
	}
	unused, err := c.unused()
	if err != nil {
		return nil, err
	}
	if len(unused) > 0 {
		add("set, but without effect here: %s", strings.Join(unused, ", "))
	}
	if c.File == "" && (c.flags.all.Changed("healthz-port") || c.flags.all.Changed("metrics-port")) {
		add("--healthz-port and --metrics-port are deprecated: use --healthz-bind-address and --metrics-bind-address")
	}
	if c.WriteConfigTo != "" && (c.Proxy.HealthzBindAddress == "" || c.Proxy.MetricsBindAddress == "") {
		add("%s: a configuration file cannot disable the health or metrics server; "+
			"they will be enabled", c.WriteConfigTo)
	}
	out = append(out, c.nodePortWarnings()...)
	if _, err := convert.ParseScheduler(c.Proxy.IPVS.Scheduler); err != nil {
		add("%s: %s: %s", c.name("ipvs.scheduler"), c.Proxy.IPVS.Scheduler, err)
	}
	none := [len(model.Families)]netip.Prefix{}
	if c.Proxy.DetectLocalMode == LocalModeClusterCIDR && c.ClusterCIDRs() == none && !c.section().masqueradeAll {
		add("%s: not set, so connections to ClusterIPs that do not come from pods keep their source address, "+
			"and pods count as external clients for externalTrafficPolicy Local", c.name("clusterCIDR"))
	}
	return out, nil
}

// unused returns the names of settings without effect that do not have their default.
func (c *Config) unused() ([]string, error) {
	values, err := flattenConfig(&c.Proxy)
	if err != nil {
		return nil, err
	}
	usual, err := flattenConfig(defaults())
	if err != nil {
		return nil, err
	}
	var names []string
	for path, value := range values {
		kubeProxys := value == "1s" && (path == "iptables.minSyncPeriod" || path == "nftables.minSyncPeriod")
		if !c.hasEffect(path) && !reflect.DeepEqual(value, usual[path]) && !kubeProxys {
			names = append(names, c.name(path)+c.instead(path))
		}
	}
	for _, flag := range []string{"boot-id-file", "machine-id-file"} {
		if c.flags.all.Changed(flag) {
			names = append(names, "--"+flag)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// instead returns what replaces a setting of IPVS, in parentheses, for [Config.unused].
func (c *Config) instead(path string) string {
	switch path {
	case "ipvs.strictARP":
		return " (no interface has addresses of Services)"
	case "ipvs.tcpTimeout":
		return fmt.Sprintf(" (%s applies)", c.name("conntrack.tcpEstablishedTimeout"))
	case "ipvs.udpTimeout":
		return fmt.Sprintf(" (%s applies)", c.name("conntrack.udpStreamTimeout"))
	}
	return ""
}

func (c *Config) hasEffect(path string) bool {
	top, name, _ := strings.Cut(path, ".")
	switch top {
	case "iptables", "ipvs", "nftables":
		switch name {
		case "scheduler":
			return true
		case "masqueradeBit", "masqueradeAll":
			return top == c.section().marks
		case "syncPeriod", "minSyncPeriod":
			return top == c.section().periods
		case "excludeCIDRs":
			return true // in the cleanup after kube-proxy
		}
		return false
	case "logging":
		return name == "format" || name == "verbosity"
	case "featureGates":
		return slices.Contains(features, name)
	case "configSyncPeriod", "portRange", "showHiddenMetricsForVersion", "windowsRunAsService", "winkernel":
		return false
	}
	return true
}

// Write writes the configuration as a file for --config, with all defaults. [Options] and
// disabled servers have no fields in it.
func (c *Config) Write(w io.Writer) error {
	text, err := yaml.Marshal(&c.Proxy)
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// flatten returns the values of nested fields by their paths: {"a": {"b": 1}} becomes
// {"a.b": 1}. Empty lists become nil, since a file shows both alike.
func flatten(fields map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range fields {
		if inner, ok := value.(map[string]any); ok {
			for path, v := range flatten(inner) {
				out[name+"."+path] = v
			}
			continue
		}
		if list, ok := value.([]any); ok && len(list) == 0 {
			value = nil
		}
		out[name] = value
	}
	return out
}

func flattenConfig(p *v1alpha1.KubeProxyConfiguration) (map[string]any, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := jsonutil.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	return flatten(fields), nil
}
