package metrics

import (
	"strconv"
	"strings"
	stdsync "sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"

	"kube-vmap/model"
	"kube-vmap/sync/connections"
)

// Connections are the counted connections; see [connections.Connections].
type Connections interface {
	Totals() connections.Totals
}

// The most series of Service ports and of endpoints.
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
	from        Connections
	byEndpoint  bool
	perPort     *prometheus.Desc
	perEndpoint *prometheus.Desc
	counters    *prometheus.Desc
	uncounted   *prometheus.Desc
	notCounted  *prometheus.Desc
	skipped     *prometheus.Desc

	mu        stdsync.Mutex // guards the rest
	ports     boundedSet[connections.Port]
	endpoints boundedSet[endpointKey]
}

// An endpointKey is an endpoint of a Service port.
type endpointKey struct {
	connections.Port
	endpoint string
}

func newConnectionCollector(from Connections, endpoints bool, maxPorts, maxEndpoints int) *connectionCollector {
	labels := []string{"namespace", "service", "port", "protocol", "ip_family"}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("kubevmap_"+name, help, labels, nil)
	}
	return &connectionCollector{
		from: from, byEndpoint: endpoints,
		perPort: desc("service_connections_total",
			"Connections from this node to endpoints of a Service port.", labels...),
		perEndpoint: desc("endpoint_connections_total",
			"Connections from this node to a current endpoint of a Service port.",
			append(labels, "endpoint")...),
		counters: desc("connection_counters",
			"Connection counters in the kernel, one for each pair of destination and endpoint; at most 131072.", "ip_family"),
		uncounted: desc("connections_uncounted_frontends",
			"Addresses and ports whose connections are not counted now, because their namespace has more than its share of "+
				"the counters.", "ip_family"),
		notCounted: desc("connections_not_counted_total",
			"Connections that were not counted because there were too many counters.", "ip_family"),
		skipped: desc("connection_series_left_out",
			"Service ports and endpoints with connections that have no series because there are too many."),
		ports:     boundedSet[connections.Port]{max: maxPorts},
		endpoints: boundedSet[endpointKey]{max: maxEndpoints},
	}
}

// Describe implements [prometheus.Collector].
func (c *connectionCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{c.perPort, c.perEndpoint, c.counters, c.uncounted, c.notCounted, c.skipped} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *connectionCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	totals := c.from.Totals()
	for _, f := range model.Families {
		out <- prometheus.MustNewConstMetric(c.counters, prometheus.GaugeValue, float64(totals.Counters[f]), f.String())
		out <- prometheus.MustNewConstMetric(c.uncounted, prometheus.GaugeValue, float64(totals.Uncounted[f]), f.String())
		out <- prometheus.MustNewConstMetric(c.notCounted, prometheus.CounterValue, float64(totals.NotCounted[f]), f.String())
	}
	skipped := c.choose(totals.Ports)
	for i := range totals.Ports {
		t := &totals.Ports[i]
		labels := labelsOf(t)
		if c.ports.Has(t.Port) {
			out <- prometheus.MustNewConstMetric(c.perPort, prometheus.CounterValue, float64(t.Connections), labels...)
		}
		for _, e := range t.Endpoints {
			if !c.byEndpoint {
				break
			}
			if endpoint := e.Endpoint.String(); c.endpoints.Has(endpointKey{t.Port, endpoint}) {
				out <- prometheus.MustNewConstMetric(c.perEndpoint, prometheus.CounterValue, float64(e.Connections),
					append(labels, endpoint)...)
			}
		}
	}
	out <- prometheus.MustNewConstMetric(c.skipped, prometheus.GaugeValue, float64(skipped))
}

// choose chooses the series, and returns how many it skipped.
func (c *connectionCollector) choose(totals []connections.PortTotal) (skipped int) {
	var ports []connections.Port
	var endpoints []endpointKey
	for i := range totals {
		ports = append(ports, totals[i].Port)
		for _, e := range totals[i].Endpoints {
			if c.byEndpoint {
				endpoints = append(endpoints, endpointKey{totals[i].Port, e.Endpoint.String()})
			}
		}
	}
	return c.ports.choose(ports) + c.endpoints.choose(endpoints)
}

// labelsOf returns the labels of a Service port. One without a name has its number.
func labelsOf(t *connections.PortTotal) []string {
	port := t.ServicePortName.Port
	if port == "" {
		port = strconv.Itoa(int(t.Number))
	}
	return []string{t.Namespace, t.Name, port, strings.ToUpper(t.Protocol.String()), t.Family.String()}
}

// A boundedSet is a set with a maximum size that keeps its members for as long as they
// exist, so that no series comes and goes because of another.
type boundedSet[K comparable] struct {
	sets.Set[K]
	max int
}

// choose replaces the set by members of all, and returns how many it skipped.
func (b *boundedSet[K]) choose(all []K) (skipped int) {
	chosen := make(sets.Set[K], min(len(all), b.max))
	for _, k := range all {
		if b.Has(k) {
			chosen.Insert(k)
		}
	}
	for _, k := range all {
		if len(chosen) == b.max {
			break
		}
		chosen.Insert(k)
	}
	b.Set = chosen
	return len(all) - len(chosen)
}
