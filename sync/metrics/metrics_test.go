package metrics_test

import (
	"bufio"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
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
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
	"kube-vmap/sync/metrics"
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

// ours returns the values of this package's metrics.
func ours(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	values := served(t, m.Gatherer())
	maps.DeleteFunc(values, func(name string, _ float64) bool {
		return !strings.HasPrefix(name, "kubeproxy_") && !strings.HasPrefix(name, "kubevmap_")
	})
	return values
}

// A rig has a loop in a bubble of synctest, with Metrics as its observer and the test as
// its source.
type rig struct {
	*testing.T
	metrics *metrics.Metrics
	kernel  *kerneltest.Faulty
	bursts  chan []sync.Event
}

func newRig(t *testing.T) *rig {
	s := &rig{T: t, metrics: metrics.New(metrics.Config{}), bursts: make(chan []sync.Event)}
	s.kernel = kerneltest.NewFaulty(kerneltest.New(), kerneltest.FaultRates{}, 1)
	config := sync.Config{
		NodeName: "node-1", Observer: s.metrics, MinSyncPeriod: time.Second,
		Rules: nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- sync.NewLoop(config, s, s.kernel, slog.New(slog.DiscardHandler)).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// Run implements [sync.Source] with the test's bursts.
func (s *rig) Run(ctx context.Context, out chan<- []sync.Event) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case burst := <-s.bursts:
			out <- burst
		}
	}
}

// send sends a burst and lets time pass.
func (s *rig) send(pass time.Duration, events ...sync.Event) {
	s.bursts <- events
	<-time.After(pass)
	synctest.Wait()
}

// expect compares some values; those whose names end in "+" must be greater.
func (s *rig) expect(when string, want map[string]float64) {
	s.Helper()
	got := ours(s.T, s.metrics)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		least, isLeast := strings.CutSuffix(name, "+")
		value, there := got[least]
		if !there || isLeast && value <= want[name] || !isLeast && value != want[name] {
			s.Errorf("%s, %s is %v (there: %t), want %v", when, name, value, there, want[name])
		}
	}
}

// both returns a value for each family.
func both(name string, value float64) map[string]float64 {
	name, least := strings.CutSuffix(name, "+")
	out := map[string]float64{}
	for _, f := range model.Families {
		key := name + `{ip_family="` + f.String() + `"}`
		if least {
			key += "+"
		}
		out[key] = value
	}
	return out
}

// all merges values.
func all(parts ...map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for _, p := range parts {
		maps.Copy(out, p)
	}
	return out
}

// web returns a Service with both families, all protocols and internalTrafficPolicy Local.
func web(n byte) sync.SetService {
	s := model.Service{
		Name: model.ServiceName{Namespace: "default", Name: "web-" + strconv.Itoa(int(n))}, Created: int64(n),
		ClusterIPs:     []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, 1}), netip.AddrFrom16([16]byte{0xfd, 15: 1})},
		InternalPolicy: model.PolicyLocal,
	}
	for _, p := range model.Protocols {
		s.Ports = append(s.Ports, model.ServicePort{Name: p.String(), Protocol: p, Port: 80})
	}
	return sync.SetService{Service: s}
}

// slice returns the slice of web-1 in that family, with an endpoint on a node.
func slice(f model.Family, node string, triggered time.Time) sync.SetSlice {
	addr := netip.AddrFrom4([4]byte{10, 244, 0, 1})
	if f == model.IPv6 {
		addr = netip.AddrFrom16([16]byte{0xfd, 1, 15: 1})
	}
	s := model.EndpointSlice{
		Name:    model.EndpointSliceName{Namespace: "default", Name: "web-1-" + f.String()},
		Service: model.ServiceName{Namespace: "default", Name: "web-1"},
		Family:  f, Endpoints: []model.Endpoint{{Addr: addr, Ready: true, Serving: true, Node: node}},
	}
	for _, p := range model.Protocols {
		s.Ports = append(s.Ports, model.EndpointPort{Name: p.String(), Protocol: p, Port: 8080})
	}
	return sync.SetSlice{Slice: s, Triggered: triggered}
}

func TestMetricsFollowTheLoop(t *testing.T) {
	const seconds = "sync_proxy_rules_duration_seconds_count"
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		began := float64(time.Now().Unix())
		s.expect("at the start", all(
			both("kubeproxy_"+seconds, 0),
			both("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", began),
			both("kubeproxy_sync_proxy_rules_nftables_sync_failures_total", 0),
			map[string]float64{"kubevmap_services": 0, "kubevmap_transactions_total": 0},
		))
		s.send(0, web(1), web(2), slice(model.IPv4, "node-2", time.Time{}), slice(model.IPv6, "node-1", time.Time{}))
		s.expect("after the first burst", all(
			both("kubeproxy_"+seconds, 1),
			both("kubeproxy_sync_full_proxy_rules_duration_seconds_count", 1),
			both("kubeproxy_sync_partial_proxy_rules_duration_seconds_count", 0),
			both("kubeproxy_sync_proxy_rules_last_timestamp_seconds", began),
			both("kubeproxy_network_programming_duration_seconds_count", 0),
			map[string]float64{
				"kubeproxy_sync_proxy_rules_service_changes_total":                                                2,
				"kubeproxy_sync_proxy_rules_service_changes_pending":                                              0,
				"kubeproxy_sync_proxy_rules_endpoint_changes_total":                                               2,
				"kubeproxy_sync_proxy_rules_endpoint_changes_pending":                                             0,
				`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"}`: 3,
				`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv6",traffic_policy="internal"}`: 0,
				"kubevmap_services":                                  2,
				"kubevmap_endpoints":                                 3,
				"kubevmap_address_conflicts":                         6,
				"kubevmap_refused_objects":                           0,
				"kubevmap_refused_service_ports":                     0,
				"kubevmap_transactions_total":                        1,
				"kubevmap_batch_size_bytes_count":                    1,
				"kubevmap_batch_size_bytes_sum+":                     1000,
				"kubevmap_batch_messages_sum+":                       10,
				"kubevmap_kernel_duration_seconds_count":             1,
				"kubevmap_encode_duration_seconds_count":             1,
				`kubevmap_element_changes_total{operation="add"}+`:   9,
				`kubevmap_element_changes_total{operation="delete"}`: 0,
				"kubevmap_object_changes_total+":                     9,
				"kubevmap_drift_repairs_total":                       0,
			},
		))
		<-time.After(time.Minute)
		s.send(0, slice(model.IPv6, "node-2", time.Now().Add(-3*time.Second)))
		s.expect("after a change", all(
			both("kubeproxy_"+seconds, 2),
			both("kubeproxy_sync_full_proxy_rules_duration_seconds_count", 1),
			both("kubeproxy_sync_partial_proxy_rules_duration_seconds_count", 1),
			both("kubeproxy_sync_proxy_rules_last_timestamp_seconds", began+60),
			both("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", began+60),
			both("kubeproxy_network_programming_duration_seconds_count", 1),
			both("kubeproxy_network_programming_duration_seconds_sum", 3),
			map[string]float64{
				`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"}`: 3,
				`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv6",traffic_policy="internal"}`: 3,
				"kubevmap_transactions_total":                         2,
				"kubevmap_endpoints":                                  0,
				`kubevmap_element_changes_total{operation="delete"}+`: 3,
			},
		))
	})
}

func TestChangesArePendingUntilCommitted(t *testing.T) {
	pending := func(services, slices float64) map[string]float64 {
		return map[string]float64{
			"kubeproxy_sync_proxy_rules_service_changes_pending":  services,
			"kubeproxy_sync_proxy_rules_endpoint_changes_pending": slices,
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		began := float64(time.Now().Unix())
		s.send(0)
		s.send(0, web(1), slice(model.IPv4, "node-1", time.Time{}))
		s.expect("within MinSyncPeriod", pending(1, 1))
		<-time.After(500 * time.Millisecond)
		s.kernel.Fail(kerneltest.FaultDenied, 1)
		s.send(time.Second/2, slice(model.IPv6, "node-1", time.Time{}))
		s.expect("while the kernel refuses", all(
			pending(1, 2),
			both("kubeproxy_sync_proxy_rules_nftables_sync_failures_total", 1),
			both("kubeproxy_sync_proxy_rules_duration_seconds_count", 2),
			both("kubeproxy_sync_proxy_rules_last_timestamp_seconds", began),
			map[string]float64{"kubevmap_endpoints": 0},
		))
		s.send(time.Minute)
		s.expect("after the commit", all(
			pending(0, 0),
			both("kubeproxy_sync_proxy_rules_nftables_sync_failures_total", 1),
			both("kubeproxy_sync_proxy_rules_last_timestamp_seconds+", began),
			map[string]float64{"kubevmap_endpoints": 6, "kubeproxy_sync_proxy_rules_endpoint_changes_total": 2},
		))
	})
}

func TestRefusalsAndRepairsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		s.kernel.Refuse("default/web-1:sctp", syscall.EINVAL, 0)
		s.send(time.Minute, web(1), slice(model.IPv4, "node-1", time.Time{}), slice(model.IPv6, "node-1", time.Time{}), sync.SetProblem{
			Object: sync.Object{Kind: "Service", Namespace: "default", Name: "odd"}, Err: syscall.EINVAL,
		})
		s.expect("with a port that the kernel refuses", map[string]float64{
			"kubevmap_refused_service_ports": 1, "kubevmap_refused_objects": 1, "kubevmap_endpoints": 4, "kubevmap_drift_repairs_total": 0,
		})
		s.kernel.ClearFaults()
		for i, f := range model.Families {
			if _, err := s.kernel.Apply(nft.Batch{nft.DeleteTable{Family: f}}); err != nil {
				t.Fatal(err)
			}
			s.send(time.Minute, slice(f, "node-2", time.Time{}))
			s.expect("with the table of "+f.String()+" deleted", map[string]float64{"kubevmap_drift_repairs_total": float64(i + 1)})
		}
		s.expect("at the end", map[string]float64{"kubevmap_refused_service_ports": 0, "kubevmap_refused_objects": 1, "kubevmap_endpoints": 0})
	})
}
