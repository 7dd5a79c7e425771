package config

import (
	"net"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kube-proxy/config/v1alpha1"

	"kube-vmap/sync/convert"
)

// The ports of kube-proxy's two servers.
const (
	healthzPort = 10256
	metricsPort = 10249
)

// setDefaults sets kube-proxy's defaults (pkg/proxy/apis/config/v1alpha1/defaults.go and
// platformApplyDefaults), with the exceptions in the package comment.
func setDefaults(p *v1alpha1.KubeProxyConfiguration) {
	p.APIVersion, p.Kind = v1alpha1.SchemeGroupVersion.String(), kind
	orDefault(&p.Mode, ModeNFTables)
	orDefault(&p.BindAddress, "0.0.0.0")
	orDefault(&p.DetectLocalMode, LocalModeClusterCIDR)
	orDefault(&p.OOMScoreAdj, new(int32(-999)))
	orDefault(&p.ConfigSyncPeriod.Duration, 15*time.Minute)
	if len(p.NodePortAddresses) == 0 {
		p.NodePortAddresses = []string{primary}
	}
	if p.FeatureGates == nil {
		p.FeatureGates = map[string]bool{}
	}
	setAddressDefaults(p)
	setSectionDefaults(p)
	setClientDefaults(p)
	setConntrackDefaults(&p.Conntrack)
	logsapi.SetRecommendedLoggingConfiguration(&p.Logging)
	p.Logging.FlushFrequency.SerializeAsString = true // 5s, not 5000000000
}

// orDefault sets a variable that is zero.
func orDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// setAddressDefaults sets the addresses of the servers, in the family of bindAddress.
func setAddressDefaults(p *v1alpha1.KubeProxyConfiguration) {
	healthz, metrics := "0.0.0.0", "127.0.0.1"
	if addr, err := convert.ParseAddr(nil, p.BindAddress); err == nil && addr.Is6() {
		healthz, metrics = "::", "::1"
	}
	orDefault(&p.HealthzBindAddress, healthz)
	orDefault(&p.MetricsBindAddress, metrics)
	p.HealthzBindAddress = withPort(p.HealthzBindAddress, healthzPort)
	p.MetricsBindAddress = withPort(p.MetricsBindAddress, metricsPort)
}

// withPort adds a port to an address without one. Invalid addresses are for validate.
func withPort(address string, port int32) string {
	if _, err := convert.ParseAddr(nil, address); err != nil {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(int(port)))
}

func setSectionDefaults(p *v1alpha1.KubeProxyConfiguration) {
	for _, period := range []*metav1.Duration{&p.IPTables.SyncPeriod, &p.IPVS.SyncPeriod, &p.NFTables.SyncPeriod} {
		orDefault(&period.Duration, 30*time.Second)
	}
	orDefault(&p.IPTables.MasqueradeBit, new(int32(14)))
	orDefault(&p.NFTables.MasqueradeBit, new(int32(14)))
	orDefault(&p.IPTables.LocalhostNodePorts, new(true))
}

func setClientDefaults(p *v1alpha1.KubeProxyConfiguration) {
	orDefault(&p.ClientConnection.ContentType, "application/vnd.kubernetes.protobuf")
	orDefault(&p.ClientConnection.QPS, 5)
	orDefault(&p.ClientConnection.Burst, 10)
}

func setConntrackDefaults(c *v1alpha1.KubeProxyConntrackConfiguration) {
	orDefault(&c.MaxPerCore, new(int32(32*1024)))
	orDefault(&c.Min, new(int32(128*1024)))
	orDefault(&c.TCPEstablishedTimeout, &metav1.Duration{Duration: 24 * time.Hour})
	orDefault(&c.TCPCloseWaitTimeout, &metav1.Duration{Duration: time.Hour})
}
