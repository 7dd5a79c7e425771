package metrics

import "github.com/prometheus/client_golang/prometheus"

// AddTakeover adds a metric with the state of the take-over from kube-proxy, which is one of
// states. It is read when metrics are gathered.
func (m *Metrics) AddTakeover(states []string, current func() string) {
	for _, s := range states {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kubevmap_takeover_state", Help: "State of the take-over from kube-proxy: 1 for the current one.",
			ConstLabels: prometheus.Labels{"state": s},
		}, func() float64 {
			if current() == s {
				return 1
			}
			return 0
		}))
	}
}
