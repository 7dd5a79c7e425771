package config

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kube-proxy/config/v1alpha1"

	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/model"
	"kube-vmap/sync/follow/fastpath"
	"kube-vmap/sync/source/convert"
)

// Options are the settings that have no field in the configuration file. A flag sets
// each of them, whether or not there is a file.
type Options struct {
	// The next ones are kube-proxy's, Manifests apart.

	Master        string // URL of the API server, instead of the kubeconfig's
	Manifests     string // folder or file with Services, instead of the API server
	WriteConfigTo string // file to write the configuration to; then exit
	InitOnly      bool   // do what needs full root privileges, then exit
	Cleanup       bool   // remove all rules, then exit

	// kube-proxy does not have the rest.

	// ServiceProxyName is the name of this proxy; see [SetProxyName].
	ServiceProxyName string
	// StrictSourceRanges closes the load balancer addresses of an IP family to everyone if all
	// source ranges of the Service are of the other family; kube-proxy leaves them open.
	StrictSourceRanges bool
	// AnswerPings has addresses of Services answer echo requests, as with kube-proxy in mode ipvs before
	// 1.26.
	AnswerPings bool
	// EndTCPFlows ends TCP connections whose endpoint is gone. With kube-proxy they
	// last as long as the endpoint answers.
	EndTCPFlows bool
	// DropInvalid drops packets of endpoints that connection tracking calls invalid.
	// kube-proxy drops all forwarded ones in mode iptables, and none in mode nftables.
	DropInvalid bool
	// ProtectTables makes our tables belong to this process, where the kernel can.
	ProtectTables bool
	// CountConnections counts connections in the kernel; EndpointMetrics has a metric
	// for each endpoint.
	CountConnections, EndpointMetrics bool
	// FastPath lets packets of established connections take a flowtable, after
	// FastPathAfter packets.
	FastPath      bool
	FastPathAfter int32
	// PassiveHealthChecks is what to do about unresponsive endpoints, in the words of
	// [convert.ParsePassiveChecks]; at most so many percent of a Service port's are avoided.
	PassiveHealthChecks           string
	PassiveHealthChecksMaxPercent int32
	// ScalerDirectory is where demand.Config finds kube-vmap-scaler.
	ScalerDirectory string
	// StatusSocket is the Unix socket of the status server, as package net names it;
	// empty for none.
	StatusSocket string
	// Probation is how long kube-proxy's rules stay in the kernel, suspended, after the
	// take-over; zero removes them immediately. KubeProxyMarker is one of the Marker words.
	Probation       time.Duration
	KubeProxyMarker string
}

// The values of --kube-proxy-marker: when empty tables of kube-proxy's names stay, for
// programs that look for them.
const (
	MarkerAuto   = "auto"
	MarkerAlways = "always"
	MarkerNever  = "never"
)

func defaultOptions() Options {
	return Options{
		AnswerPings:   true,
		ProtectTables: true, CountConnections: true, FastPathAfter: fastpath.DefaultAfter, StatusSocket: client.DefaultSocket,
		Probation: 10 * time.Minute, KubeProxyMarker: MarkerAuto,
		PassiveHealthChecks: model.PassiveChecksReport.String(), PassiveHealthChecksMaxPercent: 50,
		ScalerDirectory: "/var/run/secrets/kube-vmap-scaler",
	}
}

// SetProxyName gives the process the name of --service-proxy-name, for whatever it does. The reporter of
// events and a label of pods are the longest names that contain it.
func SetProxyName(name string) error {
	longest := validation.LabelValueMaxLength - len("kube-vmap.")
	if len(validation.IsValidLabelValue(name)) > 0 || len(name) > longest {
		return fmt.Errorf("--service-proxy-name: %q is not the value of a label, or has more than %d bytes", name, longest)
	}
	model.SetProxyName(name)
	return nil
}

// options checks options that have no field in the file, so their flags name them.
func (v *validator) options(o *Options) {
	v.notNegative("--probation", o.Probation)
	v.within("--fast-path-after", &o.FastPathAfter, 1, math.MaxInt32)
	v.within("--passive-health-checks-max-percent", &o.PassiveHealthChecksMaxPercent, 1, 100)
	if _, err := convert.ParsePassiveChecks(o.PassiveHealthChecks); err != nil || o.PassiveHealthChecks == "" {
		v.notSupported("--passive-health-checks", o.PassiveHealthChecks, "off", "report", "avoid")
	}
	if words := []string{MarkerAuto, MarkerAlways, MarkerNever}; !slices.Contains(words, o.KubeProxyMarker) {
		v.notSupported("--kube-proxy-marker", o.KubeProxyMarker, words...)
	}
}

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
	for _, period := range []*metav1.Duration{&p.IPTables.SyncPeriod, &p.IPVS.SyncPeriod, &p.NFTables.SyncPeriod} {
		orDefault(&period.Duration, 30*time.Second)
	}
	orDefault(&p.IPTables.MasqueradeBit, new(int32(14)))
	orDefault(&p.NFTables.MasqueradeBit, new(int32(14)))
	orDefault(&p.IPTables.LocalhostNodePorts, new(true))
	orDefault(&p.ClientConnection.ContentType, "application/vnd.kubernetes.protobuf")
	orDefault(&p.ClientConnection.QPS, 5)
	orDefault(&p.ClientConnection.Burst, 10)
	orDefault(&p.Conntrack.MaxPerCore, new(int32(32*1024)))
	orDefault(&p.Conntrack.Min, new(int32(128*1024)))
	orDefault(&p.Conntrack.TCPEstablishedTimeout, &metav1.Duration{Duration: 24 * time.Hour})
	orDefault(&p.Conntrack.TCPCloseWaitTimeout, &metav1.Duration{Duration: time.Hour})
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
