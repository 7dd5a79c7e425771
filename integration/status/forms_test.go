package status

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kube-vmap/integration/lab"
)

// forms runs get with all resources and output formats, each of which must have as many rows,
// and expects a line with this prefix on stderr, or nothing.
func forms(t *testing.T, h *lab.Host, note string) {
	t.Helper()
	for _, resource := range []string{"services", "ep", "frontends"} {
		rows := map[string]int{}
		for _, form := range []string{"", "wide", "name", "json", "yaml"} {
			out := get(t, h, resource, "-A", "-o", form)
			if !strings.HasPrefix(out.stderr, note) || (note == "") != (out.stderr == "") || strings.Count(out.stderr, "\n") > 1 {
				t.Errorf("get %s -o %s says %q", resource, form, out.stderr)
			}
			rows[form] = count(t, form, out.stdout)
		}
		for form, n := range rows {
			if n == 0 || n != rows["name"] {
				t.Errorf("get %s: %d rows as %q, and %d names", resource, n, form, rows["name"])
			}
		}
	}
}

// count counts the rows in an output format.
func count(t *testing.T, form, text string) int {
	t.Helper()
	lines := strings.Count(text, "\n")
	switch form {
	case "name":
		return lines
	case "json", "yaml":
		var list struct{ Items []any }
		unmarshal := json.Unmarshal
		if form == "yaml" {
			unmarshal = func(b []byte, to any) error { return yaml.Unmarshal(b, to) }
		}
		if err := unmarshal([]byte(text), &list); err != nil {
			t.Errorf("%v in %s", err, text)
		}
		return len(list.Items)
	}
	return lines - 1 // without headers
}
