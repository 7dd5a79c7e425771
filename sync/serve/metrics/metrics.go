// Package metrics provides Prometheus metrics:
//
//	sync.Loop ----Queued, Synced----> Metrics --Gatherer--> /metrics
//	health.Health ----Probed------->     |  ^
//	                                     |  `-- client-go, Go runtime, process
//	                                     `----SLIs-------> /metrics/slis
//
// Metrics that kube-proxy has, too, have its names, labels and buckets:
// dashboards and alerts for kube-proxy work. Both IP families are committed in one
// transaction, so where kube-proxy has a label for the family, both have the same values.
// Other metrics start with kubevmap_.
//
// Metrics of kube-proxy that have no meaning here do not exist:
//
//   - kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total: there are no
//     transactions that only clean up.
//   - kubeproxy_nftables_localhost_nodeport_rejected_packets_total: there are no rules that
//     reject packets to loopback addresses, because the kernel does where nothing listens.
//   - metrics of kube-proxy's other modes.
//
// Metrics are updated once for each sync, at a cost that depends only on the number of
// triggers in its report. None has labels for objects, except connections, which are
// read when they are gathered (connections.go).
package metrics

import (
	"context"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/component-base/featuregate"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/features"
	"k8s.io/component-base/metrics/legacyregistry"
	// Registers client-go's metrics of API requests (rest_client_*), as in kube-proxy, in
	// component-base's registry for the whole process; there is no other way without copying the
	// package.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	"k8s.io/component-base/metrics/prometheus/slis"

	"kube-vmap/sync"
)

// Config configures [Metrics].
type Config struct {
	Version string // of kube-vmap
	// Kubernetes is the release of the Kubernetes libraries, such as v1.37.2: see
	// [Kubernetes]. If it is empty, there is no kubernetes_build_info.
	Kubernetes string
	// NativeHistograms adds histograms of Prometheus' native format, which only
	// clients that ask for protobuf see. See also [SetNativeHistograms].
	NativeHistograms bool
}

// Metrics is a [sync.Observer] that counts and measures syncs. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	slis     componentmetrics.KubeRegistry
	*kubeProxy
	*kubeVMap
}

// New returns metrics in their own registry.
func New(c Config) *Metrics {
	r, health := prometheus.NewRegistry(), componentmetrics.NewKubeRegistry()
	registerBuild(r, c)
	slis.Register(health)
	return &Metrics{r, health, newKubeProxy(r, c.NativeHistograms), newKubeVMap(r, c.NativeHistograms)}
}

// Gatherer returns a gatherer of these metrics and those in component-base's registry for
// the whole process: of client-go, the Go runtime and the process.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return prometheus.Gatherers{m.registry, legacyregistry.DefaultGatherer}
}

// SLIs returns a gatherer of the health metrics of [KEP-3466].
//
// [KEP-3466]: https://kep.k8s.io/3466
func (m *Metrics) SLIs() prometheus.Gatherer { return m.slis }

// Synced implements [sync.Observer].
func (m *Metrics) Synced(r sync.Result) {
	if r.Err != nil {
		m.failed(r)
		return
	}
	m.kubeProxy.synced(r)
	m.kubeVMap.synced(r)
}

// Node implements [sync.Observer].
func (m *Metrics) Node(sync.SetNode) {}

// Probed counts a response to a probe ("healthz", "livez" or "readyz") with its HTTP
// status. Responses to "readyz" count only in the SLI metrics.
func (m *Metrics) Probed(probe string, code int) {
	if responses := m.probes[probe]; responses != nil {
		responses.WithLabelValues(strconv.Itoa(code)).Inc()
	}
	observe("proxy", probe, code == http.StatusOK)
}

// Pinged counts a response of the metrics server's own /healthz, which only shows that
// the process runs.
func (m *Metrics) Pinged() { observe("ping", "healthz", true) }

// observe records in the process's SLI metrics the result of a named check by a probe of that type.
func observe(name, probe string, ok bool) {
	status := slis.Error
	if ok {
		status = slis.Success
	}
	_ = slis.ObserveHealthcheck(context.Background(), name, probe, status) // returns nil
}

// registerBuild registers metrics with the versions. People use kubernetes_build_info to
// find components of different versions; its labels for the commit and date of
// Kubernetes' build are empty.
func registerBuild(r prometheus.Registerer, c Config) {
	constant := func(name, help string, labels prometheus.Labels) {
		promauto.With(r).NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}).Set(1)
	}
	constant("kubevmap_build_info", "Always 1, with the version of kube-vmap.",
		prometheus.Labels{"version": c.Version, "go_version": runtime.Version()})
	if c.Kubernetes == "" {
		return
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(c.Kubernetes, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	constant("kubernetes_build_info", "Always 1, with the version of the Kubernetes libraries in use.",
		prometheus.Labels{
			"major": major, "minor": minor, "git_version": c.Kubernetes, "git_commit": "", "git_tree_state": "",
			"build_date": "", "go_version": runtime.Version(), "compiler": runtime.Compiler,
			"platform": runtime.GOOS + "/" + runtime.GOARCH,
		})
}

// Kubernetes returns the release of the Kubernetes libraries in this program, such as
// v1.37.2, or an empty string if the build info lacks it.
func Kubernetes() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return kubernetesOf(info.Deps)
}

// kubernetesOf returns the Kubernetes release of a module list: libraries v0.x.y belong
// to Kubernetes v1.x.y.
func kubernetesOf(modules []*debug.Module) string {
	for _, m := range modules {
		if version, released := strings.CutPrefix(m.Version, "v0."); m.Path == "k8s.io/client-go" && released {
			return "v1." + version
		}
	}
	return ""
}

// SetNativeHistograms sets whether the histograms of client-go, in component-base's
// registry, are native ones as well. It must be called before the first client of the API
// is created, which registers them.
func SetNativeHistograms(enabled bool) error {
	gates := featuregate.NewFeatureGate()
	if err := features.AddFeatureGates(gates); err != nil {
		return err
	}
	if err := gates.SetFromMap(map[string]bool{string(features.NativeHistograms): enabled}); err != nil {
		return err
	}
	features.ApplyFeatureGates(gates)
	return nil
}
