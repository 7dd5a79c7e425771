package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// kubeProxy are the metrics of kube-proxy 1.37 in mode nftables.
type kubeProxy struct {
	duration, fullDuration, partialDuration byFamily[prometheus.Observer]
	programming                             byFamily[prometheus.Observer]
	failures                                byFamily[prometheus.Counter]
	noLocalInternal, noLocalExternal        byFamily[prometheus.Gauge]
	reconcileDuration                       byFamily[prometheus.Observer]
	flowsDeleted                            byFamily[prometheus.Counter]
	lastQueued                              byFamily[prometheus.Gauge]
	// lastSynced has no value before the first sync: zero would mean the year 1970.
	lastSynced *prometheus.GaugeVec

	services, endpoints               prometheus.Counter
	servicesPending, endpointsPending prometheus.Gauge
	probes                            map[string]*prometheus.CounterVec
}

type byFamily[M any] [len(model.Families)]M

type vector[M any] interface {
	WithLabelValues(...string) M
}

// families returns the metrics of a vector whose last label is the family.
func families[M any](v vector[M], labels ...string) (out byFamily[M]) {
	for _, f := range model.Families {
		out[f] = v.WithLabelValues(append(slices.Clip(labels), f.String())...)
	}
	return out
}

// syncBuckets returns kube-proxy's buckets for durations of syncs: 1 ms to 16 s.
func syncBuckets() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 15) }

// programmingBuckets returns kube-proxy's buckets for the time from a trigger to the
// kernel, by which Kubernetes' service level objective is measured.
func programmingBuckets() []float64 {
	return slices.Concat(
		prometheus.LinearBuckets(0.25, 0.25, 2),
		prometheus.LinearBuckets(1, 1, 59),
		prometheus.LinearBuckets(60, 5, 12),
		prometheus.LinearBuckets(120, 30, 7),
	)
}

func newKubeProxy(r prometheus.Registerer, native bool) *kubeProxy {
	f := factory{promauto.With(r), "kubeproxy_", native}
	notLocal := f.gauges("sync_proxy_rules_no_local_endpoints_total",
		"Service ports with traffic policy Local that have endpoints on other nodes only.", "traffic_policy", "ip_family")
	m := &kubeProxy{
		duration: families(f.histograms("sync_proxy_rules_duration_seconds",
			"Duration of syncs, successful or not.", syncBuckets(), "ip_family")),
		fullDuration: families(f.histograms("sync_full_proxy_rules_duration_seconds",
			"Duration of successful syncs that compared everything with the kernel.", syncBuckets(), "ip_family")),
		partialDuration: families(f.histograms("sync_partial_proxy_rules_duration_seconds",
			"Duration of successful syncs of changes only.", syncBuckets(), "ip_family")),
		programming: families(f.histograms("network_programming_duration_seconds",
			"Time from the trigger of an endpoint change until it was committed to the kernel.", programmingBuckets(),
			"ip_family")),
		failures: families(f.counters("sync_proxy_rules_nftables_sync_failures_total",
			"Failed syncs.", "ip_family")),
		noLocalInternal: families(notLocal, "internal"),
		noLocalExternal: families(notLocal, "external"),
		reconcileDuration: families(f.histograms("conntrack_reconciler_sync_duration_seconds",
			"Time to delete the flows to removed endpoints after a sync.", syncBuckets(), "ip_family")),
		flowsDeleted: families(f.counters("conntrack_reconciler_deleted_entries_total",
			"Connection tracking entries deleted because their endpoint was removed.", "ip_family")),
		lastQueued: families(f.gauges("sync_proxy_rules_last_queued_timestamp_seconds",
			"When a change was last queued, or the process started.", "ip_family")),
		lastSynced: f.gauges("sync_proxy_rules_last_timestamp_seconds",
			"When a sync last succeeded.", "ip_family"),
		services:  f.counter("sync_proxy_rules_service_changes_total", "Changes of Services received."),
		endpoints: f.counter("sync_proxy_rules_endpoint_changes_total", "Changes of EndpointSlices received."),
		servicesPending: f.gauge("sync_proxy_rules_service_changes_pending",
			"Changes of Services not yet committed to the kernel."),
		endpointsPending: f.gauge("sync_proxy_rules_endpoint_changes_pending",
			"Changes of EndpointSlices not yet committed to the kernel."),
		probes: map[string]*prometheus.CounterVec{
			"healthz": f.counters("proxy_healthz_total", "Responses of /healthz by HTTP status.", "code"),
			"livez":   f.counters("proxy_livez_total", "Responses of /livez by HTTP status.", "code"),
		},
	}
	for _, probe := range m.probes {
		for _, code := range [...]string{"200", "503"} {
			probe.WithLabelValues(code)
		}
	}
	for _, f := range model.Families {
		m.lastQueued[f].SetToCurrentTime()
	}
	return m
}

// Queued implements [sync.Observer].
func (m *kubeProxy) Queued(q sync.QueuedChanges) {
	m.services.Add(float64(q.Services))
	m.servicesPending.Add(float64(q.Services))
	m.endpoints.Add(float64(q.Slices))
	m.endpointsPending.Add(float64(q.Slices))
	for _, f := range model.Families {
		m.lastQueued[f].SetToCurrentTime()
	}
}

// Reconciled counts deleted stale flows of a family, and how long that took.
func (m *kubeProxy) Reconciled(f model.Family, deleted int, took time.Duration) {
	m.reconcileDuration[f].Observe(took.Seconds())
	m.flowsDeleted[f].Add(float64(deleted))
}

// failed counts a failed sync. Changes stay pending.
func (m *kubeProxy) failed(r sync.Result) {
	for _, f := range model.Families {
		m.duration[f].Observe(r.Took.Seconds())
		m.failures[f].Inc()
	}
}

func (m *kubeProxy) synced(r sync.Result) {
	kind := &m.partialDuration
	if r.Full {
		kind = &m.fullDuration
	}
	for _, f := range model.Families {
		m.duration[f].Observe(r.Took.Seconds())
		kind[f].Observe(r.Took.Seconds())
		m.noLocalInternal[f].Set(float64(r.NoLocalEndpoints.Internal[f]))
		m.noLocalExternal[f].Set(float64(r.NoLocalEndpoints.External[f]))
		if r.Full || !r.Drift { // a mere repair has no changes that wait
			m.lastSynced.WithLabelValues(f.String()).SetToCurrentTime()
		}
		for _, t := range r.Triggered {
			// The clock of the trigger's machine may be ahead.
			m.programming[f].Observe(max(0, time.Since(t).Seconds()))
		}
	}
	if (r.Full || !r.Drift) && !r.Postponed {
		m.servicesPending.Set(0)
		m.endpointsPending.Set(0)
	}
}

// A factory creates and registers metrics. It panics if a name exists.
type factory struct {
	promauto.Factory
	prefix string
	native bool // histograms are native ones as well
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.NewHistogram(f.histogramOpts(name, help, buckets))
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(f.histogramOpts(name, help, buckets), labels)
}

// histogramOpts adds to the buckets of a histogram a native one's, if enabled, of
// kube-proxy's resolution and number (component-base/metrics/internal/nativehistograms.go).
func (f factory) histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	o := prometheus.HistogramOpts{Name: f.prefix + name, Help: help, Buckets: buckets}
	if f.native {
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = 1.1, 160
	}
	return o
}

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: f.prefix + name, Help: help})
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: f.prefix + name, Help: help}, labels)
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Name: f.prefix + name, Help: help})
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: f.prefix + name, Help: help}, labels)
}
