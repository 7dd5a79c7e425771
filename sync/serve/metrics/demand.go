package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/model"
	"kube-vmap/sync/follow/hold"
)

// AddDemand adds the demand for Services that may be scaled to zero, read when metrics are
// gathered.
func (m *Metrics) AddDemand(demand func() map[model.ServiceName]hold.Demand) {
	m.registry.MustRegister(demandCollector{demand, prometheus.NewDesc("kubevmap_service_demand",
		"Clients of this node that wait for an endpoint of a Service that may be scaled to zero, and active connections "+
			"to its endpoints on this node; at least 1 for 90 s after the last packet of a client that waits, and while "+
			"connection tracking has a connection that has ended.",
		[]string{"service_namespace", "service_name"}, nil)})
}

type demandCollector struct {
	demand func() map[model.ServiceName]hold.Demand
	desc   *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c demandCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements [prometheus.Collector]. It has at most maxPorts Services: of each namespace its fair
// share.
func (c demandCollector) Collect(out chan<- prometheus.Metric) {
	all := c.demand()
	counts := map[string]int{}
	for s := range all {
		counts[s.Namespace]++
	}
	share := model.FairShare(maxPorts, slices.Collect(maps.Values(counts)))
	clear(counts)
	for _, s := range slices.SortedFunc(maps.Keys(all), model.ServiceName.Compare) {
		if counts[s.Namespace]++; counts[s.Namespace] <= share {
			out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(all[s].Clients), s.Namespace, s.Name)
		}
	}
}
