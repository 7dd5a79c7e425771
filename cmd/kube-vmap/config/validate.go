package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kube-proxy/config/v1alpha1"

	"kube-vmap/model"
	"kube-vmap/sync/source/convert"
)

// maxInterfaceName is IFNAMSIZ (include/uapi/linux/if.h) without the final NUL.
const maxInterfaceName = 15

// validate makes the checks of kube-proxy (pkg/proxy/apis/config/validation/validation.go)
// for fields with an effect here.
func (c *Config) validate() field.ErrorList {
	p := &c.Proxy
	var v validator
	v.mode(p)
	v.section(c.section())
	v.node(p)
	v.conntrack(&p.Conntrack)
	v.addresses(p)
	v.detectLocal(p)
	v.logging(p.Logging)
	v.options(&c.Options)
	return v.errs
}

type validator struct{ errs field.ErrorList }

func (v *validator) invalid(path string, value any, detail string, args ...any) {
	v.errs = append(v.errs, field.Invalid(field.NewPath(path), value, fmt.Sprintf(detail, args...)))
}

func (v *validator) notSupported(path, value string, words ...string) {
	v.errs = append(v.errs, field.NotSupported(field.NewPath(path), value, words))
}

func (v *validator) within(path string, value *int32, least, most int32) {
	switch {
	case *value >= least && *value <= most:
	case least == 0 && most == math.MaxInt32:
		v.invalid(path, *value, "must not be negative")
	default:
		v.invalid(path, *value, "must be from %d to %d", least, most)
	}
}

func (v *validator) notNegative(path string, d time.Duration) {
	if d < 0 {
		v.invalid(path, metav1.Duration{Duration: d}, "must not be negative")
	}
}

func (v *validator) mode(p *v1alpha1.KubeProxyConfiguration) {
	if !slices.Contains([]v1alpha1.ProxyMode{ModeNFTables, ModeIPTables, ModeIPVS}, p.Mode) {
		v.notSupported("mode", string(p.Mode), string(ModeNFTables), string(ModeIPTables), string(ModeIPVS))
	}
	for i, r := range p.IPVS.ExcludeCIDRs { // for the cleanup after kube-proxy, in any mode
		if _, err := convert.ParsePrefix(nil, r); err != nil {
			v.invalid(field.NewPath("ipvs.excludeCIDRs").Index(i).String(), r,
				"must be a range such as 192.0.2.0/24 or 2001:db8::/32")
		}
	}
}

func (v *validator) section(s section) {
	v.within(s.marks+".masqueradeBit", s.masqueradeBit, 0, 31)
	if s.syncPeriod <= 0 {
		v.invalid(s.periods+".syncPeriod", metav1.Duration{Duration: s.syncPeriod}, "must be greater than 0")
	}
	v.notNegative(s.periods+".minSyncPeriod", s.minSyncPeriod)
	if s.syncPeriod > 0 && s.minSyncPeriod > s.syncPeriod {
		v.invalid(s.periods+".minSyncPeriod", metav1.Duration{Duration: s.minSyncPeriod},
			"must not be more than syncPeriod, which is %s", s.syncPeriod)
	}
}

func (v *validator) node(p *v1alpha1.KubeProxyConfiguration) {
	v.within("oomScoreAdj", p.OOMScoreAdj, -1000, 1000)
	v.within("clientConnection.burst", &p.ClientConnection.Burst, 0, math.MaxInt32)
	if qps := float64(p.ClientConnection.QPS); math.IsNaN(qps) || math.IsInf(qps, 0) {
		v.invalid("clientConnection.qps", fmt.Sprint(qps), "must be a number")
	}
	if name := nodeName(p.HostnameOverride); name != "" {
		for _, problem := range validation.IsDNS1123Subdomain(name) {
			v.invalid("hostnameOverride", p.HostnameOverride, "%s", problem)
		}
	}
}

func (v *validator) conntrack(c *v1alpha1.KubeProxyConntrackConfiguration) {
	v.within("conntrack.maxPerCore", c.MaxPerCore, 0, math.MaxInt32)
	v.within("conntrack.min", c.Min, 0, math.MaxInt32)
	v.notNegative("conntrack.tcpEstablishedTimeout", c.TCPEstablishedTimeout.Duration)
	v.notNegative("conntrack.tcpCloseWaitTimeout", c.TCPCloseWaitTimeout.Duration)
	v.notNegative("conntrack.udpTimeout", c.UDPTimeout.Duration)
	v.notNegative("conntrack.udpStreamTimeout", c.UDPStreamTimeout.Duration)
}

func (v *validator) addresses(p *v1alpha1.KubeProxyConfiguration) {
	if _, err := convert.ParseAddr(nil, p.BindAddress); err != nil {
		v.invalid("bindAddress", p.BindAddress, "must be an IP address")
	}
	v.server("healthzBindAddress", p.HealthzBindAddress)
	v.server("metricsBindAddress", p.MetricsBindAddress)
	v.nodePorts(p.NodePortAddresses)
}

func (v *validator) nodePorts(items []string) {
	for i, item := range items {
		path := field.NewPath("nodePortAddresses").Index(i)
		if slices.Contains([]string{all, primary, localhost}, item) {
			if slices.Contains(items[:i], item) {
				v.errs = append(v.errs, field.Duplicate(path, item))
			}
			continue
		}
		if _, err := convert.ParsePrefix(nil, item); err != nil {
			v.invalid(path.String(), item,
				"must be all, primary, localhost, or a range such as 192.0.2.0/24 or 2001:db8::/32")
		}
	}
}

// server checks a listen address. An empty one disables the server.
func (v *validator) server(path, address string) {
	if address == "" {
		return
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		v.invalid(path, address, "must be IP:port")
		return
	}
	if _, err := convert.ParseAddr(nil, host); err != nil {
		v.invalid(path, address, "%q is not an IP address", host)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		v.invalid(path, address, "%q is not a port", port)
	}
}

// CheckPorts returns an error if a proxy with a name would have ports of the node's own one.
func (c *Config) CheckPorts() error {
	var v validator
	for path, address := range map[string]string{
		"healthzBindAddress": c.Proxy.HealthzBindAddress, "metricsBindAddress": c.Proxy.MetricsBindAddress,
	} {
		a, err := netip.ParseAddrPort(address)
		if err == nil && c.ServiceProxyName != "" && (a.Port() == healthzPort || a.Port() == metricsPort) {
			v.invalid(path, address, "with --service-proxy-name: must have another port than the node's own proxy")
		}
	}
	return c.named(v.errs)
}

func (v *validator) detectLocal(p *v1alpha1.KubeProxyConfiguration) {
	switch p.DetectLocalMode {
	case LocalModeClusterCIDR:
		v.clusterCIDR(p.ClusterCIDR)
	case LocalModeNodeCIDR:
	case LocalModeBridgeInterface:
		v.interfaceName("detectLocal.bridgeInterface", p.DetectLocal.BridgeInterface, p.DetectLocalMode)
	case LocalModeInterfaceNamePrefix:
		v.interfaceName("detectLocal.interfaceNamePrefix", p.DetectLocal.InterfaceNamePrefix, p.DetectLocalMode)
	default:
		v.notSupported("detectLocalMode", string(p.DetectLocalMode), string(LocalModeClusterCIDR), string(LocalModeNodeCIDR),
			string(LocalModeBridgeInterface), string(LocalModeInterfaceNamePrefix))
	}
}

func (v *validator) clusterCIDR(list string) {
	var has [len(model.Families)]bool
	for _, s := range splitRanges(list) {
		r, err := convert.ParsePrefix(nil, s)
		if err != nil {
			v.invalid("clusterCIDR", list, "%q is not a range such as 10.244.0.0/16 or fd00:10:244::/56", s)
			return
		}
		f := model.FamilyOf(r.Addr())
		if has[f] {
			v.invalid("clusterCIDR", list, "must have at most one range of each IP family")
			return
		}
		has[f] = true
	}
}

// interfaceName makes the checks of dev_valid_name (net/core/dev.c), for names and prefixes.
func (v *validator) interfaceName(path, name string, mode v1alpha1.LocalMode) {
	switch {
	case name == "":
		v.invalid(path, name, "must not be empty if detectLocalMode is %s", mode)
	case len(name) > maxInterfaceName:
		v.invalid(path, name, "is longer than the %d bytes of an interface name", maxInterfaceName)
	case strings.ContainsAny(name, "/: \t\n\v\f\r\x00"):
		v.invalid(path, name, "has a character that is invalid in an interface name")
	case !utf8.ValidString(name):
		v.invalid(path, name, "is not UTF-8, as all of a configuration file must be")
	}
}

// logging makes the type's own checks, and checks the format.
func (v *validator) logging(c logsapi.LoggingConfiguration) {
	if c.Format != logsapi.DefaultLogFormat && c.Format != logsapi.JSONLogFormat {
		v.notSupported("logging.format", c.Format, logsapi.DefaultLogFormat, logsapi.JSONLogFormat)
	}
	c.Format, c.Options = logsapi.DefaultLogFormat, logsapi.FormatOptions{}
	v.errs = append(v.errs, logsapi.Validate(&c, nil, field.NewPath("logging"))...)
}
