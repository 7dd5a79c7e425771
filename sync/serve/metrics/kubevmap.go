package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen"
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

// add adds a metric that is read when metrics are gathered: a counter if its name says so.
func (m *Metrics) add(name, help string, labels prometheus.Labels, read func() float64) {
	o := prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}
	if strings.HasSuffix(name, "_total") {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts(o), read))
	} else {
		m.registry.MustRegister(prometheus.NewGaugeFunc(o, read))
	}
}

func ifTrue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// AddFastPath adds the metrics of --fast-path: whether it is on, and the number of interfaces.
func (m *Metrics) AddFastPath(state func() (on bool, interfaces int)) {
	m.add("kubevmap_fast_path",
		"1 if packets of established connections may bypass the rules, 0 if something is against it.",
		nil, func() float64 { on, _ := state(); return ifTrue(on) })
	m.add("kubevmap_fast_path_interfaces", "Interfaces of the fast path; 0 while it is off.",
		nil, func() float64 { _, n := state(); return float64(n) })
}

// AddTakeover adds a metric with the state of the take-over from kube-proxy, one of states.
func (m *Metrics) AddTakeover(states []string, current func() string) {
	for _, s := range states {
		m.add("kubevmap_takeover_state", "State of the take-over from kube-proxy: 1 for the current one.",
			prometheus.Labels{"state": s}, func() float64 { return ifTrue(current() == s) })
	}
}

// AddAPIAge adds the metric of [kube-vmap/sync/source/cluster.Source.Age].
func (m *Metrics) AddAPIAge(age func() time.Duration) {
	m.add("kubevmap_api_age_seconds", "Age of the newest that the API server sent, of the kind where it is oldest.",
		nil, func() float64 { return age().Seconds() })
}

// AddPathChecks adds how many check packets are in each state, by the last simulation.
func (m *Metrics) AddPathChecks(states []string, count func(state string) int) {
	for _, s := range states {
		m.add("kubevmap_check_packets", "Packets that the node simulates to check itself, by what becomes of them.",
			prometheus.Labels{"state": s}, func() float64 { return float64(count(s)) })
	}
}

// PassiveHealth is what passive health checks found; see [kube-vmap/sync/follow/passivehealth.Tracker].
type PassiveHealth interface {
	Totals() (unresponsive, probes, changes int64)
	InUse() (endpoints, reached int64)
	Late() time.Duration
}

// AddPassiveHealth adds the metrics of passive health checks.
func (m *Metrics) AddPassiveHealth(from PassiveHealth) {
	m.add("kubevmap_unresponsive_endpoints", "Unresponsive endpoints of Service ports.",
		nil, func() float64 { n, _, _ := from.Totals(); return float64(n) })
	const inUse = "kubevmap_passive_health_endpoints"
	m.add(inUse, "Endpoints that clients of this node use, by whether its probes reach them.",
		prometheus.Labels{"probes": "reply"}, func() float64 { _, n := from.InUse(); return float64(n) })
	m.add(inUse, "Endpoints that clients of this node use, by whether its probes reach them.",
		prometheus.Labels{"probes": "none"}, func() float64 { all, n := from.InUse(); return float64(all - n) })
	m.add("kubevmap_passive_health_probes_total", "Probes of endpoints.",
		nil, func() float64 { _, n, _ := from.Totals(); return float64(n) })
	m.add("kubevmap_passive_health_changes_total", "Times that an endpoint became unresponsive or responsive.",
		nil, func() float64 { _, _, n := from.Totals(); return float64(n) })
	m.add("kubevmap_passive_health_late_seconds",
		"How long ago connections were last read that should have been read since; zero if in time.",
		nil, func() float64 { return from.Late().Seconds() })
}

// Listeners are the open node ports on localhost; see [kube-vmap/sync/follow/localhost.Proxy].
type Listeners interface {
	Listeners() [len(model.Families)]listen.Counts
}

// AddLocalhost adds the metrics of node ports on localhost that kube-proxy has since 1.37.
func (m *Metrics) AddLocalhost(from Listeners) {
	const prefix = "kubeproxy_nftables_localhost_nodeport_"
	for _, f := range model.Families {
		label := prometheus.Labels{"ip_family": f.String()}
		m.add(prefix+"listeners", "Node ports open on localhost.",
			label, func() float64 { return float64(from.Listeners()[f].Open) })
		m.add(prefix+"listener_creation_failures_total", "Failures to open a node port on localhost; each is retried.",
			label, func() float64 { return float64(from.Listeners()[f].Failures) })
	}
}
