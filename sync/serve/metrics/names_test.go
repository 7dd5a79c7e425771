package metrics

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	clientgo "k8s.io/client-go/tools/metrics"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/prometheus/feature"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen"
)

// full returns metrics with a value of every kind.
func full() *Metrics {
	m := New(Config{Version: "v1.2.3", Kubernetes: "v1.37.2", NativeHistograms: true})
	m.Queued(sync.QueuedChanges{Services: 1, Slices: 1})
	r := sync.Result{Triggered: []time.Time{time.Now()}}
	r.Applied.Steps = 1
	m.Synced(r)
	from := &fakeTotals{}
	from.put(model.IPv4, model.TCP, "web", "http", 1, "10.244.1.2:8080")
	from.Ports[0].Refusals = 1
	m.AddConnections(from, true)
	m.AddLocalhost(listeners{})
	m.AddPassiveHealth(passiveHealth{})
	m.AddTakeover([]string{"probation", "done"}, func() string { return "done" })
	m.AddAPIAge(func() time.Duration { return 90 * time.Second })
	m.AddFastPath(func() (bool, int) { return true, 3 })
	return m
}

// passiveHealth has some unresponsive endpoints, and is late.
type passiveHealth struct{}

func (passiveHealth) Totals() (unresponsive, probes, changes int64) { return 2, 30, 4 }
func (passiveHealth) InUse() (endpoints, reached int64)             { return 9, 7 }
func (passiveHealth) Late() time.Duration                           { return 1500 * time.Millisecond }

// listeners has some node ports on localhost.
type listeners struct{}

func (listeners) Listeners() (c [len(model.Families)]listen.Counts) {
	c[model.IPv4] = listen.Counts{Open: 4, Failures: 1}
	c[model.IPv6] = listen.Counts{Open: 6, Failures: 2}
	return c
}

// shapes returns a line for each of our metrics, with its type, labels and buckets.
func shapes(t *testing.T, m *Metrics) []string {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range slices.DeleteFunc(families, isNotOurs) {
		words := []string{f.GetName(), strings.ToLower(f.GetType().String())}
		for _, label := range f.GetMetric()[0].GetLabel() {
			words = append(words, label.GetName())
		}
		if b := f.GetMetric()[0].GetHistogram().GetBucket(); b != nil {
			words = append(words, fmt.Sprintf("%d:%.5g..%.5g", len(b), b[0].GetUpperBound(), b[len(b)-1].GetUpperBound()))
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

// isNotOurs reports whether a metric is made by another package.
func isNotOurs[F interface{ GetName() string }](f F) bool {
	name := f.GetName()
	return !strings.HasPrefix(name, "kubeproxy_") && !strings.HasPrefix(name, "kubevmap_") && name != "kubernetes_build_info"
}

// wantShapes is the expected result of [shapes]. Those with kubeproxy_ are as kube-proxy
// 1.37.2 serves them in mode nftables (pkg/proxy/metrics/metrics.go).
const wantShapes = `
kubeproxy_conntrack_reconciler_deleted_entries_total counter ip_family
kubeproxy_conntrack_reconciler_sync_duration_seconds histogram ip_family 15:0.001..16.384
kubeproxy_network_programming_duration_seconds histogram ip_family 80:0.25..300
kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total counter ip_family
kubeproxy_nftables_localhost_nodeport_listeners gauge ip_family
kubeproxy_proxy_healthz_total counter code
kubeproxy_proxy_livez_total counter code
kubeproxy_sync_full_proxy_rules_duration_seconds histogram ip_family 15:0.001..16.384
kubeproxy_sync_partial_proxy_rules_duration_seconds histogram ip_family 15:0.001..16.384
kubeproxy_sync_proxy_rules_duration_seconds histogram ip_family 15:0.001..16.384
kubeproxy_sync_proxy_rules_endpoint_changes_pending gauge
kubeproxy_sync_proxy_rules_endpoint_changes_total counter
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds gauge ip_family
kubeproxy_sync_proxy_rules_last_timestamp_seconds gauge ip_family
kubeproxy_sync_proxy_rules_nftables_sync_failures_total counter ip_family
kubeproxy_sync_proxy_rules_no_local_endpoints_total gauge ip_family traffic_policy
kubeproxy_sync_proxy_rules_service_changes_pending gauge
kubeproxy_sync_proxy_rules_service_changes_total counter
kubernetes_build_info gauge build_date compiler git_commit git_tree_state git_version go_version major minor platform
kubevmap_address_conflicts gauge
kubevmap_affinity_full_connections_total counter ip_family
kubevmap_api_age_seconds gauge
kubevmap_batch_messages histogram 10:4..1.0486e+06
kubevmap_batch_size_bytes histogram 10:256..6.7109e+07
kubevmap_build_info gauge go_version version
kubevmap_connection_counters gauge ip_family
kubevmap_connection_series_left_out gauge
kubevmap_connections_not_counted_total counter ip_family
kubevmap_connections_uncounted_frontends gauge ip_family
kubevmap_drift_repairs_total counter
kubevmap_element_changes_total counter operation
kubevmap_encode_duration_seconds histogram 11:1.6e-05..16.777
kubevmap_endpoint_connections_total counter endpoint_address ip_family port protocol service_name service_namespace
kubevmap_endpoints gauge
kubevmap_fast_path gauge
kubevmap_fast_path_interfaces gauge
kubevmap_kernel_duration_seconds histogram 11:1.6e-05..16.777
kubevmap_object_changes_total counter
kubevmap_passive_health_changes_total counter
kubevmap_passive_health_endpoints gauge probes
kubevmap_passive_health_late_seconds gauge
kubevmap_passive_health_probes_total counter
kubevmap_refused_objects gauge
kubevmap_refused_service_ports gauge
kubevmap_service_connections_total counter ip_family port protocol service_name service_namespace
kubevmap_service_refusals_total counter ip_family outcome port protocol service_name service_namespace
kubevmap_services gauge
kubevmap_takeover_state gauge state
kubevmap_transactions_total counter
kubevmap_unresponsive_endpoints gauge
`

// TestMetricNamesLabelsAndBuckets also looks for the names in docs/metrics.md.
func TestMetricNamesLabelsAndBuckets(t *testing.T) {
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(wantShapes), "\n"), shapes(t, full())); diff != "" {
		t.Errorf("metrics differ, -want +got\n%s", diff)
	}
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, there := strings.Cut(string(text), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !there {
		t.Fatal("docs/metrics.md has no section Metrics")
	}
	for line := range strings.Lines(strings.TrimSpace(wantShapes)) {
		if name, _, _ := strings.Cut(line, " "); !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/metrics.md does not mention %s", name)
		}
	}
}

func TestOtherPackagesMetricsHaveTheirValues(t *testing.T) {
	const listeners = "kubeproxy_nftables_localhost_nodeport_listener"
	expect(t, full(), "in use",
		both(listeners+"s", 4, 6), both(listeners+"_creation_failures_total", 1, 2),
		map[string]float64{
			"kubevmap_unresponsive_endpoints": 2, "kubevmap_passive_health_probes_total": 30,
			"kubevmap_passive_health_changes_total": 4, "kubevmap_passive_health_late_seconds": 1.5,
			`kubevmap_passive_health_endpoints{probes="reply"}`: 7, `kubevmap_passive_health_endpoints{probes="none"}`: 2,
			"kubevmap_api_age_seconds": 90, "kubevmap_fast_path": 1, "kubevmap_fast_path_interfaces": 3,
			`kubevmap_takeover_state{state="probation"}`: 0, `kubevmap_takeover_state{state="done"}`: 1,
			`kubevmap_build_info{go_version="` + runtime.Version() + `",version="v1.2.3"}`: 1,
			`kubernetes_build_info{build_date="",compiler="gc",git_commit="",git_tree_state="",git_version="v1.37.2",go_version="` +
				runtime.Version() + `",major="1",minor="37",platform="` + runtime.GOOS + "/" + runtime.GOARCH + `"}`: 1,
		},
	)
}

// TestNativeHistogramsAreServedAsWell checks ours and client-go's. The classic
// buckets stay, as [TestMetricNamesLabelsAndBuckets] shows.
func TestNativeHistogramsAreServedAsWell(t *testing.T) {
	for _, native := range []bool{false, true} {
		if err := SetNativeHistograms(native); err != nil {
			t.Fatal(err)
		}
		m := New(Config{NativeHistograms: native})
		m.Synced(sync.Result{Took: time.Second})
		client := k8smetrics.NewHistogram(&k8smetrics.HistogramOpts{Name: "client_go", Buckets: []float64{1}})
		own := k8smetrics.NewKubeRegistry()
		own.MustRegister(client)
		client.Observe(1)
		families, err := prometheus.Gatherers{m.Gatherer(), own}.Gather()
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, f := range families {
			if name := f.GetName(); name != "client_go" && name != "kubeproxy_sync_proxy_rules_duration_seconds" && name != "kubevmap_batch_messages" {
				continue
			}
			seen++
			if h := f.GetMetric()[0].GetHistogram(); (h.Schema != nil) != native || len(h.GetBucket()) == 0 {
				t.Errorf("native %t: %s has schema %v and %d buckets", native, f.GetName(), h.Schema, len(h.GetBucket()))
			}
		}
		if seen != 3 {
			t.Errorf("found %d of 3 histograms", seen)
		}
	}
}

func TestProcessMetricsAreServed(t *testing.T) {
	clientgo.RequestResult.Increment(t.Context(), "200", "GET", "192.0.2.1:6443")
	feature.RecordFeatureInfo(t.Context(), "AllowServiceExternalIPs", "DEPRECATED", false)
	got := served(t, full().Gatherer())
	for _, want := range []string{
		`rest_client_requests_total{code="200",host="192.0.2.1:6443",method="GET"}`,
		`kubernetes_feature_enabled{name="AllowServiceExternalIPs",stage="DEPRECATED"}`,
		"go_goroutines", "process_resident_memory_bytes", "process_start_time_seconds",
	} {
		if _, there := got[want]; !there {
			t.Errorf("%s is not served", want)
		}
	}
}

func TestProbesAreCountedByStatus(t *testing.T) {
	m := New(Config{})
	before := served(t, m.SLIs())
	for probe, codes := range map[string][]int{"healthz": {200, 503, 503}, "livez": {200, 200}, "readyz": {503}} {
		for _, code := range codes {
			m.Probed(probe, code)
		}
	}
	m.Pinged()
	expect(t, m, "probed", map[string]float64{
		`kubeproxy_proxy_healthz_total{code="200"}`: 1, `kubeproxy_proxy_healthz_total{code="503"}`: 2,
		`kubeproxy_proxy_livez_total{code="200"}`: 2, `kubeproxy_proxy_livez_total{code="503"}`: 0,
	})
	after := served(t, m.SLIs()) // of the process
	for name, want := range map[string]float64{
		`kubernetes_healthchecks_total{name="proxy",status="success",type="healthz"}`: 1,
		`kubernetes_healthchecks_total{name="proxy",status="error",type="healthz"}`:   2,
		`kubernetes_healthchecks_total{name="proxy",status="success",type="livez"}`:   2,
		`kubernetes_healthchecks_total{name="proxy",status="error",type="readyz"}`:    1,
		`kubernetes_healthchecks_total{name="ping",status="success",type="healthz"}`:  1,
	} {
		if grown := after[name] - before[name]; grown != want {
			t.Errorf("%s grew by %v, want %v", name, grown, want)
		}
	}
	for name, want := range map[string]float64{"livez": 1, "readyz": 0} {
		if got, there := after[`kubernetes_healthcheck{name="proxy",type="`+name+`"}`]; !there || got != want {
			t.Errorf("the SLI of %s is %v, want %v", name, got, want)
		}
	}
}

func TestUpdateCostIsConstant(t *testing.T) {
	m := full()
	r := sync.Result{Services: 100_000, Endpoints: 1_000_000, Conflicts: 1000, InvalidObjects: 1000, QuarantinedPorts: 1000}
	r.Counts.Added, r.Applied.Steps = 1_000_000, 20
	if n := testing.AllocsPerRun(100, func() { m.Queued(sync.QueuedChanges{Services: 1}); m.Synced(r) }); n > 0 {
		t.Errorf("an update costs %v allocations", n)
	}
}
