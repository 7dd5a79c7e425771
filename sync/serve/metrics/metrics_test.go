package metrics

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/connections"
	"kube-vmap/sync/follow/hold"
)

// served returns the values that a scraper reads, by name and labels.
func served(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("gather: status %d: %s", w.Code, w.Body)
	}
	values := map[string]float64{}
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			at := strings.LastIndexByte(line, ' ')
			value, err := strconv.ParseFloat(line[at+1:], 64)
			if err != nil {
				t.Fatal(err)
			}
			values[line[:at]] = value
		}
	}
	return values
}

func both(name string, v4, v6 float64) map[string]float64 {
	return map[string]float64{name + `{ip_family="IPv4"}`: v4, name + `{ip_family="IPv6"}`: v6}
}

// inBoth returns metrics with the same value in both families; their names have no prefix.
func inBoth(values map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, value := range values {
		maps.Copy(out, both("kubeproxy_"+name, value, value))
	}
	return out
}

// expect compares some values of metrics.
func expect(t *testing.T, m *Metrics, when string, all ...map[string]float64) {
	t.Helper()
	got := served(t, m.Gatherer())
	for _, values := range all {
		for name, want := range values {
			if value, there := got[name]; !there || value != want {
				t.Errorf("%s, %s is %v (there: %t), want %v", when, name, value, there, want)
			}
		}
	}
}

func TestMetricsAreThoseOfTheSyncs(t *testing.T) {
	const (
		pendingServices = "kubeproxy_sync_proxy_rules_service_changes_pending"
		pendingSlices   = "kubeproxy_sync_proxy_rules_endpoint_changes_pending"
		noLocal         = `kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv`
	)
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{})
		began := float64(time.Now().Unix())
		expect(t, m, "at the start", inBoth(map[string]float64{
			"sync_proxy_rules_duration_seconds_count":        0,
			"sync_proxy_rules_last_queued_timestamp_seconds": began,
			"sync_proxy_rules_nftables_sync_failures_total":  0,
		}), map[string]float64{"kubevmap_services": 0, "kubevmap_transactions_total": 0})

		<-time.After(time.Minute)
		m.Queued(sync.QueuedChanges{Services: 2, Slices: 3})
		m.Queued(sync.QueuedChanges{Services: 1, Slices: 2})
		<-time.After(time.Minute)
		m.Synced(sync.Result{Took: 8 * time.Second, Err: syscall.ENOBUFS})
		expect(t, m, "after a failure", inBoth(map[string]float64{
			"sync_proxy_rules_duration_seconds_sum":          8,
			"sync_full_proxy_rules_duration_seconds_count":   0,
			"sync_proxy_rules_last_queued_timestamp_seconds": began + 60,
			"sync_proxy_rules_nftables_sync_failures_total":  1,
		}), map[string]float64{
			pendingServices: 3, "kubeproxy_sync_proxy_rules_service_changes_total": 3,
			pendingSlices: 5, "kubeproxy_sync_proxy_rules_endpoint_changes_total": 5,
		})
		if _, there := served(t, m.Gatherer())[`kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}`]; there {
			t.Error("there is a time of the last sync before the first")
		}

		first := sync.Result{
			Took: time.Second, Full: true, Drift: true, Triggered: []time.Time{time.Now().Add(time.Hour)}, // a clock that is ahead
			Services: 7, Endpoints: 8, QuarantinedPorts: 9, InvalidObjects: 10, Conflicts: 11,
			Counts:           nft.Counts{Added: 4, Deleted: 5, Objects: 6},
			NoLocalEndpoints: model.NoLocalEndpoints{Internal: [...]int{1, 2}, External: [...]int{3, 4}},
		}
		m.Synced(first)
		second := sync.Result{Took: 4 * time.Second, Triggered: []time.Time{time.Now().Add(-time.Minute), time.Now()}}
		second.Applied = nft.Applied{Steps: 2, Messages: 3, Bytes: 500, Kernel: time.Second, Took: 3 * time.Second}
		second.Services, second.NoLocalEndpoints = 7, first.NoLocalEndpoints
		m.Synced(second)
		expect(t, m, "after two syncs", inBoth(map[string]float64{
			"network_programming_duration_seconds_count":    3,
			"network_programming_duration_seconds_sum":      60,
			"sync_proxy_rules_duration_seconds_sum":         13,
			"sync_full_proxy_rules_duration_seconds_sum":    1,
			"sync_partial_proxy_rules_duration_seconds_sum": 4,
			"sync_proxy_rules_last_timestamp_seconds":       began + 120,
			"sync_proxy_rules_nftables_sync_failures_total": 1,
		}), map[string]float64{
			pendingServices: 0, pendingSlices: 0,
			noLocal + `4",traffic_policy="internal"}`: 1, noLocal + `6",traffic_policy="internal"}`: 2,
			noLocal + `4",traffic_policy="external"}`: 3, noLocal + `6",traffic_policy="external"}`: 4,
			"kubevmap_services": 7, "kubevmap_endpoints": 0, "kubevmap_drift_repairs_total": 1,
			`kubevmap_element_changes_total{operation="add"}`:    4,
			`kubevmap_element_changes_total{operation="delete"}`: 5,
			"kubevmap_object_changes_total":                      6, "kubevmap_transactions_total": 2,
			"kubevmap_kernel_duration_seconds_sum": 1, "kubevmap_kernel_duration_seconds_count": 1,
			"kubevmap_encode_duration_seconds_sum": 2, "kubevmap_encode_duration_seconds_count": 1,
			"kubevmap_batch_messages_sum": 3, "kubevmap_batch_messages_count": 1,
			"kubevmap_batch_size_bytes_sum": 500, "kubevmap_batch_size_bytes_count": 1,
		})
		m.Synced(first)
		expect(t, m, "at the end", map[string]float64{
			"kubevmap_drift_repairs_total": 2, "kubevmap_endpoints": 8, "kubevmap_refused_service_ports": 9, "kubevmap_refused_objects": 10, "kubevmap_address_conflicts": 11,
		})

		m.Queued(sync.QueuedChanges{Services: 1, Slices: 2})
		<-time.After(time.Minute)
		m.Synced(sync.Result{Drift: true})
		waits := map[string]float64{pendingServices: 1, pendingSlices: 2}
		expect(t, m, "after a repair", waits, inBoth(map[string]float64{"sync_proxy_rules_last_timestamp_seconds": began + 120}))
		m.Synced(sync.Result{Postponed: true})
		expect(t, m, "changes are postponed", waits, inBoth(map[string]float64{"sync_proxy_rules_last_timestamp_seconds": began + 180}))
	})
}

func TestAffinityAndFlowsAreCounted(t *testing.T) {
	m := New(Config{})
	for _, total := range []uint64{5, 5, 7, 3} { // from zero again at last
		m.AffinityFull(model.IPv4, total)
	}
	m.AffinityFull(model.IPv6, 4)
	for range 2 {
		m.Reconciled(model.IPv6, 3, time.Second)
	}
	expect(t, m, "then",
		both("kubevmap_affinity_full_connections_total", 10, 4),
		both("kubeproxy_conntrack_reconciler_deleted_entries_total", 0, 6),
		both("kubeproxy_conntrack_reconciler_sync_duration_seconds_sum", 0, 2),
	)
}

func TestKubernetesVersionOfModules(t *testing.T) {
	for version, want := range map[string]string{
		"v0.36.3": "v1.36.3", "v0.37.0-rc.1": "v1.37.0-rc.1", "v1.5.2": "", "(devel)": "", "": "",
	} {
		modules := []*debug.Module{{Path: "k8s.io/klog/v2", Version: "v0.1.0"}, {Path: "k8s.io/client-go", Version: version}}
		if got := kubernetesOf(modules); got != want {
			t.Errorf("with client-go %s, it is %q, want %q", version, got, want)
		}
	}
	if got := kubernetesOf(nil); got != "" {
		t.Errorf("without libraries, it is %q", got)
	}
}

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
