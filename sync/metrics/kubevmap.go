package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// kubeVMap are the metrics that only kube-vmap has.
type kubeVMap struct {
	transactions, added, deleted, objects, repairs prometheus.Counter
	bytes, messages, kernel, encode                prometheus.Histogram

	affinityFullTotal byFamily[prometheus.Counter]
	lastAffinityFull  byFamily[uint64] // as told last

	services, endpoints, refusedPorts, refusedObjects, conflicts prometheus.Gauge
}

func newKubeVMap(r prometheus.Registerer) *kubeVMap {
	f := factory{promauto.With(r), "kubevmap_"}
	elements := f.counters("element_changes_total", "Elements of sets and maps that came or went.", "operation")
	// 16 us to 17 s: a replaced endpoint takes no longer than the first, and a first
	// load should never take longer than the last.
	durations := prometheus.ExponentialBuckets(16e-6, 4, 11)
	return &kubeVMap{
		transactions: f.counter("transactions_total", "Netlink transactions that the kernel took."),
		bytes: f.histogram("batch_size_bytes", "Bytes sent to the kernel in a sync, if any were.",
			prometheus.ExponentialBuckets(256, 4, 10)),
		messages: f.histogram("batch_messages", "Netlink messages sent to the kernel in a sync, if any were.",
			prometheus.ExponentialBuckets(4, 4, 10)),
		kernel:  f.histogram("kernel_duration_seconds", "Time the kernel took for the batch of a sync.", durations),
		encode:  f.histogram("encode_duration_seconds", "Time it took to encode the batch of a sync.", durations),
		added:   elements.WithLabelValues("add"),
		deleted: elements.WithLabelValues("delete"),
		objects: f.counter("object_changes_total", "Tables, chains, rules, sets and maps that came or went."),
		repairs: f.counter("drift_repairs_total", "Times another program's changes to our tables were undone."),

		affinityFullTotal: families(f.counters("affinity_full_connections_total",
			"Connections whose client could not be remembered, since the affinity map was full.", "ip_family")),

		services:       f.gauge("services", "Services known."),
		endpoints:      f.gauge("endpoints", "Endpoints of Service ports programmed."),
		refusedPorts:   f.gauge("refused_service_ports", "Service ports left out because the kernel refuses them."),
		refusedObjects: f.gauge("refused_objects", "Objects left out, whole or in part, because they cannot be used."),
		conflicts:      f.gauge("address_conflicts", "Addresses with ports that a Service lost to another one."),
	}
}

// affinityFull takes the total that the kernel counts, from zero again if somebody
// removed the table. It is called from one goroutine.
func (m *kubeVMap) affinityFull(f model.Family, total uint64) {
	if before := m.lastAffinityFull[f]; total >= before {
		m.affinityFullTotal[f].Add(float64(total - before))
	} else {
		m.affinityFullTotal[f].Add(float64(total))
	}
	m.lastAffinityFull[f] = total
}

// synced measures a sync that worked.
func (m *kubeVMap) synced(r sync.Result) {
	if a := r.Applied; a.Steps > 0 {
		m.transactions.Add(float64(a.Steps))
		m.bytes.Observe(float64(a.Bytes))
		m.messages.Observe(float64(a.Messages))
		m.kernel.Observe(a.Kernel.Seconds())
		m.encode.Observe((a.Took - a.Kernel).Seconds())
	}
	m.added.Add(float64(r.Counts.Added))
	m.deleted.Add(float64(r.Counts.Deleted))
	m.objects.Add(float64(r.Counts.Objects))
	if r.Drift {
		m.repairs.Inc()
	}
	m.services.Set(float64(r.Services))
	m.endpoints.Set(float64(r.Endpoints))
	m.refusedPorts.Set(float64(r.RefusedPorts))
	m.refusedObjects.Set(float64(r.RefusedObjects))
	m.conflicts.Set(float64(r.Conflicts))
}
