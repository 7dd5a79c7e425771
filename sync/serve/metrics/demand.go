package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/sync/follow/hold"
)

// AddDemand adds the demand for Services that may be scaled to zero, which list returns when metrics
// are gathered.
func (m *Metrics) AddDemand(list func() []hold.ServiceDemand) {
	m.registry.MustRegister(demandCollector{list, prometheus.NewDesc("kubevmap_service_demand",
		"Clients that wait for an endpoint of a Service that may be scaled to zero, and its active connections, through "+
			"this node; at least 1 for 90 s after the last packet of a client that waits.",
		[]string{"service_namespace", "service_name"}, nil)})
}

type demandCollector struct {
	list func() []hold.ServiceDemand
	desc *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c demandCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements [prometheus.Collector].
func (c demandCollector) Collect(out chan<- prometheus.Metric) {
	list := c.list()
	for _, d := range list[:min(len(list), maxPorts)] {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(d.Demand), d.Service.Namespace, d.Service.Name)
	}
}
