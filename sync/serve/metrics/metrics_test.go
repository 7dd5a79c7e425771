package metrics

import (
	"bufio"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
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
