// Package metrics counts and measures what the proxy does, for Prometheus:
//
//	sync.Loop ----Queued, Synced----> Metrics --Gatherer--> /metrics
//	health.Health ----Probed------->     |  ^
//	                                     |  `-- client-go, Go runtime, process
//	                                     `----SLIs-------> /metrics/slis
//
// What kube-proxy measures too has kube-proxy's names, labels and buckets, so
// that its dashboards and alerts go on working. Both IP families go to the kernel
// in one transaction, so where kube-proxy tells the families apart, each has the
// same values. What is particular to kube-vmap begins with kubevmap_.
//
// Left out is what has no meaning here, rather than served as zero:
//
//   - kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total: nothing is
//     cleaned up in transactions of its own.
//   - all of kube-proxy's other modes.
//
// Metrics are brought up to date once for each sync, at a cost that depends on
// nothing but the number of triggers it reports. Nothing is labelled with
// objects but the numbers of connections, which are read when they are gathered
// (connections.go).
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// Config is what [Metrics] are told once.
type Config struct {
	Version string // of kube-vmap
	// Kubernetes is the release whose ways the proxy has, such as v1.36.3: see
	// [Kubernetes]. Without one there is no kubernetes_build_info.
	Kubernetes string
}

// Metrics is a [sync.Observer] that counts and measures what it hears. It is
// safe for use by several goroutines.
type Metrics struct {
	registry *prometheus.Registry
	proxy    *kubeProxy
	kubeVMap *kubeVMap
	slis     *indicators
}

// New makes metrics in a registry of their own.
func New(c Config) *Metrics {
	r := prometheus.NewRegistry()
	registerBuild(r, c)
	return &Metrics{registry: r, proxy: newKubeProxy(r), kubeVMap: newKubeVMap(r), slis: newIndicators()}
}

// Gatherer gathers these metrics, and those of client-go, the Go runtime and the
// process, which component-base keeps for the whole process.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return prometheus.Gatherers{m.registry, legacyregistry.DefaultGatherer}
}

// SLIs gathers what [KEP-3466] has components say of their health.
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

// Reconciled counts flows of a family that were ended because their endpoints are
// gone, and how long that took.
func (m *Metrics) Reconciled(f model.Family, deleted int, took time.Duration) {
	m.proxy.reconciled(f, deleted, took)
}

// AffinityFull says how many connections of a family there were, in all, whose
// client could not be remembered.
func (m *Metrics) AffinityFull(f model.Family, total uint64) { m.kubeVMap.affinityFull(f, total) }

// Node implements [sync.Observer].
func (m *Metrics) Node(sync.SetNode) {}
