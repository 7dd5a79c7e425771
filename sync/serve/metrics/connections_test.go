package metrics

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"kube-vmap/model"
	"kube-vmap/sync/follow/connections"
	"kube-vmap/sync/follow/hold"
)

// fakeTotals are totals that a test can change.
type fakeTotals connections.Totals

func (t *fakeTotals) Totals() connections.Totals { return connections.Totals(*t) }

// put adds a Service with so many connections to each endpoint.
func (t *fakeTotals) put(f model.Family, p model.Protocol, name, port string, each uint64, endpoints ...string) {
	of := connections.PortTotal{Number: 80, Connections: each * uint64(len(endpoints))}
	of.Namespace, of.Name, of.ServicePortName.Port, of.Protocol, of.Family = "shop", name, port, p, f
	for _, e := range endpoints {
		of.Endpoints = append(of.Endpoints, connections.EndpointTotal{Endpoint: netip.MustParseAddrPort(e), Connections: each})
	}
	t.Ports = append(t.Ports, of)
}

// gathered returns a collector's values, by name and labels in the order of their names.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r, out := prometheus.NewPedanticRegistry(), map[string]float64{}
	r.MustRegister(c)
	syntax := regexp.MustCompile(`[{,]\w+="|"|}|^kubevmap_`)
	for name, value := range served(t, r) {
		out[strings.Join(strings.Fields(syntax.ReplaceAllString(name, " ")), " ")] = value
	}
	return out
}

func TestConnectionsByServicePortAndEndpoint(t *testing.T) {
	from := &fakeTotals{
		Counters: [...]int{model.IPv4: 5, model.IPv6: 7}, NotCounted: [...]uint64{9, 0}, Uncounted: [...]int{0, 8},
	}
	from.put(model.IPv4, model.TCP, "web", "http", 3, "10.244.1.2:8080", "10.244.1.3:8080")
	from.put(model.IPv6, model.UDP, "web", "", 2, "[fd00::2]:53")
	from.put(model.IPv6, model.SCTP, "web", "", 1, "[fd00::2]:53")
	from.Ports[0].Refusals, from.Ports[0].Retried = 9, 7
	want := map[string]float64{
		"service_refusals_total IPv4 retried http TCP web shop": 7,
		"service_refusals_total IPv4 refused http TCP web shop": 2,
		"connection_counters IPv4":                              5,
		"connection_counters IPv6":                              7,
		"connection_series_left_out":                            0,
		"connections_not_counted_total IPv4":                    9,
		"connections_not_counted_total IPv6":                    0,
		"connections_uncounted_frontends IPv4":                  0,
		"connections_uncounted_frontends IPv6":                  8,
		"service_connections_total IPv4 http TCP web shop":      6,
		"service_connections_total IPv6 80 UDP web shop":        2,
		"service_connections_total IPv6 80 SCTP web shop":       1,
	}
	if got := gathered(t, newConnectionCollector(from, false, 10, 10)); !maps.Equal(got, want) {
		t.Errorf("without endpoints:\n%v, want\n%v", got, want)
	}
	for _, e := range []string{"10.244.1.2:8080", "10.244.1.3:8080"} {
		want["endpoint_connections_total "+e+" IPv4 http TCP web shop"] = 3
	}
	want["endpoint_connections_total [fd00::2]:53 IPv6 80 UDP web shop"] = 2
	want["endpoint_connections_total [fd00::2]:53 IPv6 80 SCTP web shop"] = 1
	if got := gathered(t, newConnectionCollector(from, true, 10, 10)); !maps.Equal(got, want) {
		t.Errorf("with endpoints:\n%v, want\n%v", got, want)
	}
}

func TestSeriesAreBounded(t *testing.T) {
	services := func(names ...string) *fakeTotals {
		from := &fakeTotals{}
		for _, f := range model.Families {
			for _, n := range names {
				at := map[model.Family]string{model.IPv4: "10.244.1.2:%s", model.IPv6: "[fd00::2]:%s"}[f]
				from.put(f, model.TCP, "svc-"+n, "", 1, fmt.Sprintf(at, n))
			}
		}
		return from
	}
	has := func(when string, got map[string]float64, skipped float64, names ...string) {
		t.Helper()
		var ports, endpoints []string
		for name := range got {
			kind, rest, _ := strings.Cut(name, " ")
			_, rest, _ = strings.Cut(rest, "svc-")
			n, _, _ := strings.Cut(rest, " ")
			switch kind {
			case "service_connections_total":
				ports = append(ports, n)
			case "endpoint_connections_total":
				endpoints = append(endpoints, n)
			}
		}
		slices.Sort(ports)
		slices.Sort(endpoints)
		if !slices.Equal(ports, names) || !slices.Equal(endpoints, names) || got["connection_series_left_out"] != 2*skipped {
			t.Errorf("%s: ports %v, endpoints %v, %v skipped; want %v of both, %v skipped",
				when, ports, endpoints, got["connection_series_left_out"], names, 2*skipped)
		}
	}
	c := newConnectionCollector(services("5", "6"), true, 4, 4)
	has("at first", gathered(t, c), 0, "5", "5", "6", "6")
	c.from = services("4", "5", "6", "7")
	has("with more", gathered(t, c), 4, "4", "5", "6", "7")
}

// TestSeriesOfDemandAreBounded has a namespace with more Services than there are series, and another one.
func TestSeriesOfDemandAreBounded(t *testing.T) {
	m, demand := New(Config{}), map[model.ServiceName]hold.Demand{{Namespace: "z", Name: "web"}: {Clients: 3}}
	for i := range maxPorts + 100 {
		demand[model.ServiceName{Namespace: "a", Name: fmt.Sprint(i)}] = hold.Demand{Clients: 1}
	}
	m.AddDemand(func() map[model.ServiceName]hold.Demand { return demand })
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "kubevmap_service_demand" {
			continue
		}
		list := f.GetMetric()
		if last := list[len(list)-1]; len(list) != maxPorts || last.GetGauge().GetValue() != 3 {
			t.Errorf("%d series, the last one is %s", len(list), last)
		}
		return
	}
	t.Error("no series")
}
