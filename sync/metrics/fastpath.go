package metrics

import "github.com/prometheus/client_golang/prometheus"

// AddFastPath adds the metrics of --fast-path: whether it is on, and the number of interfaces.
// They are read when metrics are gathered.
func (m *Metrics) AddFastPath(state func() (on bool, interfaces int)) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kubevmap_fast_path", Help: "1 if packets of established connections may bypass the rules, 0 if something " +
				"is against it.",
		}, func() float64 {
			if on, _ := state(); on {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kubevmap_fast_path_interfaces", Help: "Interfaces of the fast path; 0 while it is off.",
		}, func() float64 {
			_, n := state()
			return float64(n)
		}),
	)
}
