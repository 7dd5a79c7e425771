package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// kubeVMap are the metrics that kube-proxy does not have. Most values come with each
// sync, in sync.Result (sync/observer.go), which sync/apply.go fills. Others come through
// methods of Metrics that cmd/kube-vmap passes to the packages that know them.
type kubeVMap struct {
	transactions, added, deleted, objects, repairs prometheus.Counter
	bytes, messages, kernel, encode                prometheus.Histogram

	affinityFullTotal byFamily[prometheus.Counter]
	lastAffinityFull  byFamily[uint64] // as last reported

	services, endpoints, refusedPorts, refusedObjects, conflicts prometheus.Gauge
}

func newKubeVMap(r prometheus.Registerer, native bool) *kubeVMap {
	f := factory{promauto.With(r), "kubevmap_", native}
	elements := f.counters("element_changes_total", "Elements added to or deleted from sets and maps.", "operation")
	// 16 us to 17 s: replacing an endpoint takes about as long as the first bucket, and
	// an initial load should never exceed the last.
	durations := prometheus.ExponentialBuckets(16e-6, 4, 11)
	return &kubeVMap{
		transactions: f.counter("transactions_total", "Netlink transactions committed."),
		bytes: f.histogram("batch_size_bytes", "Size of the batch of a sync that changed something.",
			prometheus.ExponentialBuckets(256, 4, 10)),
		messages: f.histogram("batch_messages", "Netlink messages in the batch of a sync that changed something.",
			prometheus.ExponentialBuckets(4, 4, 10)),
		kernel:  f.histogram("kernel_duration_seconds", "Time the kernel took for the batch of a sync.", durations),
		encode:  f.histogram("encode_duration_seconds", "Time to encode the batch of a sync.", durations),
		added:   elements.WithLabelValues("add"),
		deleted: elements.WithLabelValues("delete"),
		objects: f.counter("object_changes_total", "Tables, chains, rules, sets and maps created or deleted."),
		repairs: f.counter("drift_repairs_total", "Repairs of changes that another program made to our tables."),

		affinityFullTotal: families(f.counters("affinity_full_connections_total",
			"Connections whose client was not remembered because the affinity map was full.", "ip_family")),

		services:       f.gauge("services", "Services known."),
		endpoints:      f.gauge("endpoints", "Programmed endpoints of Service ports."),
		refusedPorts:   f.gauge("refused_service_ports", "Service ports quarantined because the kernel refuses them."),
		refusedObjects: f.gauge("refused_objects", "Objects skipped, as a whole or in part, because they cannot be used."),
		conflicts:      f.gauge("address_conflicts", "Addresses and ports that a Service lost to another one."),
	}
}

// AffinityFull sets the total number of connections of a family whose client was not remembered:
// the kernel's counter, which starts from zero if the table was deleted. It is called on one
// goroutine.
func (m *kubeVMap) AffinityFull(f model.Family, total uint64) {
	if before := m.lastAffinityFull[f]; total >= before {
		m.affinityFullTotal[f].Add(float64(total - before))
	} else {
		m.affinityFullTotal[f].Add(float64(total))
	}
	m.lastAffinityFull[f] = total
}

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
	m.refusedPorts.Set(float64(r.QuarantinedPorts))
	m.refusedObjects.Set(float64(r.InvalidObjects))
	m.conflicts.Set(float64(r.Conflicts))
}
