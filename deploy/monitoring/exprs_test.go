package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
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
