package monitoring

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	clientgo "k8s.io/client-go/tools/metrics"

	"kube-vmap/sync"
	"kube-vmap/sync/follow/connections"
	"kube-vmap/sync/serve/metrics"
)

// nothing has no connections.
type nothing struct{}

func (nothing) Totals() connections.Totals { return connections.Totals{} }

// allRespond are passive health checks that have found nothing.
type allRespond struct{}

func (allRespond) Totals() (unresponsive, probes, changes int64) { return 0, 0, 0 }
func (allRespond) InUse() (endpoints, reached int64)             { return 0, 0 }
func (allRespond) Late() time.Duration                           { return 0 }

// A matcher is a label matcher of a query.
type matcher = labels.Matcher

// served returns all metrics of kube-vmap with their labels: those with values, and those
// that are registered without values.
func served(t *testing.T) map[string][]string {
	t.Helper()
	m := metrics.New(metrics.Config{Version: "v1.2.3", Kubernetes: "v1.37.2"})
	m.AddConnections(nothing{}, true)
	m.AddPassiveHealth(allRespond{})
	m.AddTakeover([]string{"done"}, func() string { return "done" })
	m.Queued(sync.QueuedChanges{Services: 1, Slices: 1})
	m.Synced(sync.Result{Triggered: []time.Time{time.Now()}})
	clientgo.RequestResult.Increment(t.Context(), "200", "GET", "192.0.2.1:6443")
	out := described(t, m)
	families, err := m.Gatherer().Gather()
	must(t, err)
	for _, f := range families {
		var names []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			names = append(names, l.GetName())
		}
		out[f.GetName()] = names
		if f.GetType() == dto.MetricType_HISTOGRAM {
			delete(out, f.GetName())
			out[f.GetName()+"_sum"], out[f.GetName()+"_count"] = names, names
			out[f.GetName()+"_bucket"] = append([]string{"le"}, names...)
		}
	}
	return out
}

// description matches the text form of a [prometheus.Desc], which has no accessors.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]+)".* variableLabels: \{([^}]*)\}\}$`)

func described(t *testing.T, m *metrics.Metrics) map[string][]string {
	t.Helper()
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		for _, g := range m.Gatherer().(prometheus.Gatherers) {
			if c, ok := g.(prometheus.Collector); ok {
				c.Describe(all)
			}
		}
	}()
	out := map[string][]string{}
	for d := range all {
		parts := description.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("unexpected description %s", d)
		}
		out[parts[1]] = strings.Split(parts[2], ",")
	}
	if len(out) == 0 {
		t.Fatal("nothing is registered")
	}
	return out
}
