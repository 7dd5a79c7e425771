package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/model"
	"kube-vmap/sync/follow/listen"
)

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
