package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/model"
	"kube-vmap/sync/follow/connections"
	"kube-vmap/sync/follow/hold"
)

// Connections are the counted connections; see [connections.Connections].
type Connections interface {
	Totals() connections.Totals
}

// The most series of Service ports and of endpoints: the first ones.
const (
	maxPorts     = 50_000
	maxEndpoints = 20_000
)

// AddConnections adds the connections to each Service port and, optionally, to each
// endpoint. They are read when metrics are gathered.
func (m *Metrics) AddConnections(from Connections, endpoints bool) {
	m.registry.MustRegister(newConnectionCollector(from, endpoints, maxPorts, maxEndpoints))
}

// A connectionCollector collects connections. These are the only metrics with labels for
// objects: those that had connections through this node, up to a maximum.
type connectionCollector struct {
	from                   Connections
	byEndpoint             bool
	maxPorts, maxEndpoints int

	perPort, perRefusal, perEndpoint, counters, uncounted, notCounted, skipped *prometheus.Desc
}

func newConnectionCollector(from Connections, endpoints bool, maxPorts, maxEndpoints int) *connectionCollector {
	// Not namespace, service and endpoint, which Prometheus gives to what it scrapes.
	labels := []string{"service_namespace", "service_name", "port", "protocol", "ip_family"}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("kubevmap_"+name, help, labels, nil)
	}
	return &connectionCollector{
		from: from, byEndpoint: endpoints, maxPorts: maxPorts, maxEndpoints: maxEndpoints,
		perPort: desc("service_connections_total",
			"Connections from this node to endpoints of a Service port.", labels...),
		perRefusal: desc("service_refusals_total",
			"Refusals of endpoints of a Service port that retries, by whether they were retried or reached the client.",
			append(labels, "outcome")...),
		perEndpoint: desc("endpoint_connections_total",
			"Connections from this node to a current endpoint of a Service port.",
			append(labels, "endpoint_address")...),
		counters: desc("connection_counters",
			"Connection counters in the kernel, one for each pair of destination and endpoint; at most 131072.", "ip_family"),
		uncounted: desc("connections_uncounted_frontends",
			"Addresses and ports whose connections are not counted now, because their namespace has more than its share of "+
				"the counters.", "ip_family"),
		notCounted: desc("connections_not_counted_total",
			"Connections that were not counted: there were too many counters, or no memory for one more.", "ip_family"),
		skipped: desc("connection_series_left_out",
			"Service ports and endpoints with connections that have no series because there are too many."),
	}
}

// Describe implements [prometheus.Collector].
func (c *connectionCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.perRefusal
	for _, d := range [...]*prometheus.Desc{c.perPort, c.perEndpoint, c.counters, c.uncounted, c.notCounted, c.skipped} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *connectionCollector) Collect(out chan<- prometheus.Metric) {
	totals := c.from.Totals()
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for _, f := range model.Families {
		gauge(c.counters, totals.Counters[f], f.String())
		gauge(c.uncounted, totals.Uncounted[f], f.String())
		counter(c.notCounted, totals.NotCounted[f], f.String())
	}
	endpoints := 0
	for i := range totals.Ports {
		t := &totals.Ports[i]
		labels := labelsOf(t)
		if i < c.maxPorts {
			counter(c.perPort, t.Connections, labels...)
			if t.Refusals > 0 {
				counter(c.perRefusal, t.Retried, append(labels, "retried")...)
				counter(c.perRefusal, t.Refusals-t.Retried, append(labels, "refused")...)
			}
		}
		if !c.byEndpoint {
			continue
		}
		for _, e := range t.Endpoints {
			if endpoints++; endpoints <= c.maxEndpoints {
				counter(c.perEndpoint, e.Connections, append(labels, e.Endpoint.String())...)
			}
		}
	}
	gauge(c.skipped, max(0, len(totals.Ports)-c.maxPorts)+max(0, endpoints-c.maxEndpoints))
}

// labelsOf returns the labels of a Service port. One without a name has its number.
func labelsOf(t *connections.PortTotal) []string {
	port := cmp.Or(t.ServicePortName.Port, strconv.Itoa(int(t.Number)))
	return []string{t.Namespace, t.Name, port, strings.ToUpper(t.Protocol.String()), t.Family.String()}
}

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
