package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runbook is the document that alerts link to.
const runbook = "docs/runbook.md"

func TestPrometheusRuleEqualsRules(t *testing.T) {
	var object struct {
		Kind string   `json:"kind"`
		Spec ruleFile `json:"spec"`
	}
	must(t, yamlOf(t, "prometheusrule.yaml", &object))
	var plain ruleFile
	unmarshal(t, "rules.yaml", &plain)
	if diff := cmp.Diff(plain, object.Spec); diff != "" || object.Kind != "PrometheusRule" {
		t.Errorf("%s differs (make monitoring), -rules.yaml +prometheusrule.yaml\n%s", object.Kind, diff)
	}
}

func TestEveryAlertHasARunbook(t *testing.T) {
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(read(t, "../../"+runbook)), -1) {
		sections[anchor(m[1])] = true
	}
	alerts := map[string]bool{}
	for _, r := range ruleset(t) {
		if r.Alert == "" {
			continue
		}
		alerts[anchor(r.Alert)] = true
		for _, name := range []string{"summary", "description"} {
			if text := r.Annotations[name]; !strings.HasSuffix(text, ".") {
				t.Errorf("%s: the %s is not a sentence: %q", r.Alert, name, text)
			}
		}
		if want := runbook + "#" + anchor(r.Alert); r.Annotations["runbook_url"] != want || !sections[anchor(r.Alert)] {
			t.Errorf("%s links to %s, want %s (section exists: %t)", r.Alert, r.Annotations["runbook_url"], want, sections[anchor(r.Alert)])
		}
		if severity := r.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, severity) {
			t.Errorf("%s has severity %q", r.Alert, severity)
		}
	}
	for s := range sections {
		if strings.HasPrefix(s, "kubevmap") && !alerts[s] {
			t.Errorf("%s has a section %s without an alert", runbook, s)
		}
	}
}

func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(strings.Trim(heading, "` ")), " ", "-")
}

func TestEveryRuleHasATest(t *testing.T) {
	trials := string(read(t, "rules_test.yaml"))
	for _, r := range ruleset(t) {
		if want := fmt.Sprintf("{alertname=%q", r.Alert); r.Alert != "" && !strings.Contains(trials, want) {
			t.Errorf("no case of rules_test.yaml expects %s", r.Alert)
		}
		if r.Record != "" && !strings.Contains(trials, r.Record) {
			t.Errorf("no case of rules_test.yaml evaluates %s", r.Record)
		}
	}
}

func TestPromtoolAcceptsRulesAndTests(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "rules.yaml"},
		{"test", "rules", "rules_test.yaml"},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool(t), args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// promtool returns the path where .ci/promtool installs it.
func promtool(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../.cache/promtool/promtool")
	must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skip("promtool cannot be had: .ci/promtool fetches it")
	}
	return path
}
