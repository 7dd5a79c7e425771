package metrics

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/model"
)

// AddDemand adds the demand for Services that may be scaled to zero, which each returns when metrics
// are gathered.
func (m *Metrics) AddDemand(each func() iter.Seq2[model.ServiceName, int]) {
	m.registry.MustRegister(demandCollector{each, prometheus.NewDesc("kubevmap_service_demand",
		"Clients that wait for an endpoint of a Service that may be scaled to zero, and its active connections, through "+
			"this node; at least 1 for 90 s after the last packet of a client that waits, and while connection tracking "+
			"has a connection that has ended.",
		[]string{"service_namespace", "service_name"}, nil)})
}

type demandCollector struct {
	each func() iter.Seq2[model.ServiceName, int]
	desc *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c demandCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements [prometheus.Collector]. It has the first Services, at most maxPorts.
func (c demandCollector) Collect(out chan<- prometheus.Metric) {
	n := 0
	for s, demand := range c.each() {
		if n++; n > maxPorts {
			return
		}
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(demand), s.Namespace, s.Name)
	}
}
