package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/model"
	"kube-vmap/sync/listen"
)

// Listeners are the open node ports on localhost; see [kube-vmap/sync/localhost.Proxy].
type Listeners interface {
	Listeners() [len(model.Families)]listen.Counts
}

// AddLocalhost adds the metrics of node ports on localhost that kube-proxy has since 1.37.
// They are read when metrics are gathered.
func (m *Metrics) AddLocalhost(from Listeners) {
	const prefix = "kubeproxy_nftables_localhost_nodeport_"
	for _, f := range model.Families {
		label := prometheus.Labels{"ip_family": f.String()}
		m.registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: prefix + "listeners", Help: "Node ports open on localhost.", ConstLabels: label,
			}, func() float64 { return float64(from.Listeners()[f].Open) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: prefix + "listener_creation_failures_total",
				Help: "Failures to open a node port on localhost; each is retried.", ConstLabels: label,
			}, func() float64 { return float64(from.Listeners()[f].Failures) }),
		)
	}
}
