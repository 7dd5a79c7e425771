package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/model"
	"kube-vmap/sync/listen"
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

// PassiveHealth is what passive health checks found; see [kube-vmap/sync/passivehealth.Tracker].
type PassiveHealth interface {
	Totals() (notAnswering, questions, changes int64)
}

// AddPassiveHealth adds the metrics of passive health checks.
func (m *Metrics) AddPassiveHealth(from PassiveHealth) {
	m.add("kubevmap_endpoints_not_answering", "Endpoints of Service ports that do not answer this node.",
		nil, func() float64 { n, _, _ := from.Totals(); return float64(n) })
	m.add("kubevmap_passive_health_questions_total", "Questions whether an endpoint answers.",
		nil, func() float64 { _, n, _ := from.Totals(); return float64(n) })
	m.add("kubevmap_passive_health_changes_total",
		"Times that an endpoint or a node stopped to answer, or answered again.",
		nil, func() float64 { _, _, n := from.Totals(); return float64(n) })
}

// Listeners are the open node ports on localhost; see [kube-vmap/sync/localhost.Proxy].
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
