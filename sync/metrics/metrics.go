// Package metrics provides Prometheus metrics:
//
//	sync.Loop ----Queued, Synced----> Metrics --Gatherer--> /metrics
//	health.Health ----Probed------->     |  ^
//	                                     |  `-- client-go, Go runtime, process
//	                                     `----SLIs-------> /metrics/slis
//
// Metrics that kube-proxy has, too, have its names, labels and buckets, so that
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
//   - those of kube-proxy's other modes.
//
// Metrics are updated once for each sync, at a cost that depends only on the number of
// triggers in its report. None has labels for objects, except connections, which are
// read when they are gathered (connections.go).
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// Config configures [Metrics].
type Config struct {
	Version string // of kube-vmap
	// Kubernetes is the release of the Kubernetes libraries, such as v1.37.2: see
	// [Kubernetes]. If it is empty, there is no kubernetes_build_info.
	Kubernetes string
	// NativeHistograms adds to histograms those of Prometheus' native format, which only
	// clients that ask for protobuf see. See also [SetNativeHistograms].
	NativeHistograms bool
}

// Metrics is a [sync.Observer] that counts and measures syncs. It is safe for concurrent
// use.
type Metrics struct {
	registry *prometheus.Registry
	proxy    *kubeProxy
	kubeVMap *kubeVMap
	slis     *sliMetrics
}

// New returns metrics in their own registry.
func New(c Config) *Metrics {
	r := prometheus.NewRegistry()
	registerBuild(r, c)
	return &Metrics{
		registry: r, proxy: newKubeProxy(r, c.NativeHistograms),
		kubeVMap: newKubeVMap(r, c.NativeHistograms), slis: newSLIMetrics(),
	}
}

// Gatherer returns a gatherer of these metrics and those in component-base's registry for
// the whole process: of client-go, the Go runtime and the process.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return prometheus.Gatherers{m.registry, legacyregistry.DefaultGatherer}
}

// SLIs returns a gatherer of the health metrics of [KEP-3466].
//
// [KEP-3466]: https://kep.k8s.io/3466
func (m *Metrics) SLIs() prometheus.Gatherer { return m.slis.registry }

// Queued implements [sync.Observer].
func (m *Metrics) Queued(q sync.QueuedChanges) { m.proxy.queued(q) }

// Synced implements [sync.Observer].
func (m *Metrics) Synced(r sync.Result) {
	if r.Err != nil {
		m.proxy.failed(r)
		return
	}
	m.proxy.synced(r)
	m.kubeVMap.synced(r)
}

// Reconciled counts deleted stale flows of a family, and how long that took.
func (m *Metrics) Reconciled(f model.Family, deleted int, took time.Duration) {
	m.proxy.reconciled(f, deleted, took)
}

// AffinityFull sets the total number of connections of a family whose client was not
// remembered.
func (m *Metrics) AffinityFull(f model.Family, total uint64) { m.kubeVMap.affinityFull(f, total) }

// Node implements [sync.Observer].
func (m *Metrics) Node(sync.SetNode) {}
