package metrics

import (
	"strconv"
	"strings"
	gosync "sync"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/model"
	"kube-vmap/sync/connections"
)

// Connections says how many connections there were.
type Connections interface {
	Totals() connections.Totals
}

// How many series there are at most: of Service ports, which are told always, and of
// endpoints, which are told if that is asked for.
const (
	maxPorts     = 50_000
	maxEndpoints = 20_000
)

// AddConnections serves how many connections there were to each Service port, read when it is
// gathered; with endpoints also to each endpoint.
func (m *Metrics) AddConnections(from Connections, endpoints bool) {
	m.registry.MustRegister(newConnectionCollector(from, endpoints, maxPorts, maxEndpoints))
}

// connectionCollector collects what is served about connections. These are the only metrics that
// are labelled with objects; those are no more than have had connections through this
// node, and no more than a bound.
type connectionCollector struct {
	from        Connections
	byEndpoint  bool
	perPort     *prometheus.Desc
	perEndpoint *prometheus.Desc
	counters    *prometheus.Desc
	skipped     *prometheus.Desc

	mu        gosync.Mutex // guards the rest
	ports     boundedSet[connections.Port]
	endpoints boundedSet[endpointKey]
}

// endpointKey is an endpoint as one of a Service port.
type endpointKey struct {
	connections.Port
	endpoint string
}

func newConnectionCollector(from Connections, endpoints bool, mostPorts, mostEndpoints int) *connectionCollector {
	labels := []string{"namespace", "service", "port", "protocol", "ip_family"}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("kubevmap_"+name, help, labels, nil)
	}
	return &connectionCollector{
		from: from, byEndpoint: endpoints,
		perPort: desc("service_connections_total",
			"Connections that went from this node to endpoints of a Service port.", labels...),
		perEndpoint: desc("endpoint_connections_total",
			"Connections that went from this node to an endpoint that serves now, as one of a Service port.",
			append(labels, "endpoint")...),
		counters: desc("connection_counters",
			"Pairs of what is asked for and the endpoint that is got for which connections are counted; 131072 at most.", "ip_family"),
		skipped: desc("connection_series_left_out",
			"Service ports and endpoints with connections that are not served here, since they would be too many."),
		ports:     boundedSet[connections.Port]{max: mostPorts},
		endpoints: boundedSet[endpointKey]{max: mostEndpoints},
	}
}

// Describe implements [prometheus.Collector].
func (c *connectionCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{c.perPort, c.perEndpoint, c.counters, c.skipped} {
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
	}
	left := c.collectPorts(totals, out)
	if c.byEndpoint {
		left += c.collectEndpoints(totals, out)
	}
	out <- prometheus.MustNewConstMetric(c.skipped, prometheus.GaugeValue, float64(left))
}

func (c *connectionCollector) collectPorts(totals connections.Totals, out chan<- prometheus.Metric) (left int) {
	all := make([]connections.Port, len(totals.Ports))
	for i := range totals.Ports {
		all[i] = totals.Ports[i].Port
	}
	left = c.ports.choose(all)
	for i := range totals.Ports {
		if t := &totals.Ports[i]; c.ports.has(t.Port) {
			out <- prometheus.MustNewConstMetric(c.perPort, prometheus.CounterValue, float64(t.Connections), labelsOf(t)...)
		}
	}
	return left
}

func (c *connectionCollector) collectEndpoints(totals connections.Totals, out chan<- prometheus.Metric) (left int) {
	var all []endpointKey
	for i := range totals.Ports {
		for _, e := range totals.Ports[i].Endpoints {
			all = append(all, endpointKey{totals.Ports[i].Port, e.Endpoint.String()})
		}
	}
	left = c.endpoints.choose(all)
	for i := range totals.Ports {
		t := &totals.Ports[i]
		for _, e := range t.Endpoints {
			endpoint := e.Endpoint.String()
			if c.endpoints.has(endpointKey{t.Port, endpoint}) {
				out <- prometheus.MustNewConstMetric(c.perEndpoint, prometheus.CounterValue, float64(e.Connections),
					append(labelsOf(t), endpoint)...)
			}
		}
	}
	return left
}

// labelsOf name a Service port as Kubernetes does. One without a name is known by
// its number.
func labelsOf(t *connections.PortTotal) []string {
	port := t.ServicePortName.Port
	if port == "" {
		port = strconv.Itoa(int(t.Number))
	}
	return []string{t.Namespace, t.Name, port, strings.ToUpper(t.Protocol.String()), t.Family.String()}
}

// boundedSet are series of which there may be only so many: the first that came, for as
// long as they are there, so that none comes and goes because of another.
type boundedSet[K comparable] struct {
	max  int
	kept map[K]struct{}
}

// choose chooses among all there are, and says how many are left out.
func (b *boundedSet[K]) choose(all []K) (left int) {
	kept := make(map[K]struct{}, min(len(all), b.max))
	for _, k := range all {
		if b.has(k) {
			kept[k] = struct{}{}
		}
	}
	for _, k := range all {
		if len(kept) == b.max {
			break
		}
		kept[k] = struct{}{}
	}
	b.kept = kept
	return len(all) - len(kept)
}

func (b *boundedSet[K]) has(k K) bool {
	_, kept := b.kept[k]
	return kept
}
