package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	clientgo "k8s.io/client-go/tools/metrics"
	"sigs.k8s.io/yaml"

	"kube-vmap/sync"
	"kube-vmap/sync/follow/connections"
	"kube-vmap/sync/serve/metrics"
)

type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Record      string            `json:"record"`
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// ruleset returns all rules of rules.yaml.
func ruleset(t *testing.T) (out []rule) {
	t.Helper()
	var f ruleFile
	unmarshal(t, "rules.yaml", &f)
	for _, g := range f.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) == 0 {
		t.Fatal("no rules")
	}
	return out
}

// A board has the fields of the dashboard that are tested.
type board struct {
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		Type    string `json:"type"`
		About   string `json:"description"`
		Targets []struct {
			Expr       string            `json:"expr"`
			Datasource map[string]string `json:"datasource"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

func theBoard(t *testing.T) (b board) {
	t.Helper()
	must(t, json.Unmarshal(read(t, "dashboard.json"), &b))
	return b
}

// filled replaces the variables of dashboard queries as Grafana does.
var filled = strings.NewReplacer("$__rate_interval", "5m", "$cluster", ".*", "$instance", "a|b")

// exprs returns all parsed queries by their location.
func exprs(t *testing.T) map[string]parser.Expr {
	t.Helper()
	out := map[string]parser.Expr{}
	parse := func(where, text string) {
		e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			return
		}
		out[where+": "+text] = e
	}
	for _, r := range ruleset(t) {
		parse(r.Record+r.Alert, r.Expr)
	}
	b := theBoard(t)
	for _, p := range b.Panels {
		for _, q := range p.Targets {
			parse(p.Title, filled.Replace(q.Expr))
		}
	}
	for _, v := range b.Templating.List {
		if of, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
			metric, _, _ := strings.Cut(of, ", "+v.Name+")")
			parse("$"+v.Name, filled.Replace(metric))
		}
	}
	return out
}

// fromTheTarget are the labels that Prometheus adds, and cluster, which users may add.
var fromTheTarget = []string{"job", "instance", "cluster"}

func TestQueriesUseExistingMetricsAndLabels(t *testing.T) {
	known := served(t)
	for _, r := range ruleset(t) {
		if r.Record != "" {
			known[r.Record] = labelsOf(r.Record, grouping(t, r.Expr))
		}
	}
	known["up"] = nil
	for where, e := range exprs(t) {
		parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
			switch n := n.(type) {
			case *parser.VectorSelector:
				labels, there := known[n.Name]
				if !there {
					t.Errorf("%s\nunknown metric %s", where, n.Name)
					return nil
				}
				for _, m := range n.LabelMatchers {
					if m.Name != "__name__" && !slices.Contains(labels, m.Name) && !slices.Contains(fromTheTarget, m.Name) {
						t.Errorf("%s\n%s has no label %s", where, n.Name, m.Name)
					}
				}
			case *parser.AggregateExpr:
				labels := below(n, known)
				for _, label := range n.Grouping {
					if labels != nil && !slices.Contains(labels, label) && !slices.Contains(fromTheTarget, label) {
						t.Errorf("%s\nno metric has the label %s that it is grouped by", where, label)
					}
				}
			}
			return nil
		})
	}
}

// below returns the labels of all metrics in an expression.
func below(e parser.Expr, known map[string][]string) (out []string) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			out = append(out, known[s.Name]...)
		}
		return nil
	})
	return out
}

// grouping returns the labels of an expression's innermost grouping.
func grouping(t *testing.T, text string) (out []string) {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	must(t, err)
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			out = a.Grouping
		}
		return nil
	})
	return out
}

// labelsOf returns the labels of a recorded metric: a quantile has no le.
func labelsOf(name string, labels []string) []string {
	if strings.Contains(name, ":p99") {
		return slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return l == "le" })
	}
	return labels
}

func TestQueriesSelectOurJobOnly(t *testing.T) {
	for where, e := range exprs(t) {
		ours := false
		parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
			if s, ok := n.(*parser.VectorSelector); ok {
				ours = ours || strings.Contains(s.Name, ":") || slices.ContainsFunc(s.LabelMatchers, func(m *matcher) bool { return m.Name == "job" && m.Matches("kube-vmap") && !m.Matches("kube-proxy") })
			}
			return nil
		})
		if !ours {
			t.Errorf("%s\nselects the metrics of kube-proxy, too", where)
		}
	}
}

func unmarshal(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(read(t, file), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(file))
	must(t, err)
	return text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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
