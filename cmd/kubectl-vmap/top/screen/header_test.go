package screen

import (
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/inspect/top/toptest"
)

// TestServiceStateEqualsItsRow has an endpoint that is not ready, which is not a problem.
func TestServiceStateEqualsItsRow(t *testing.T) {
	for want, problems := range map[string][]status.Problem{"OK": nil, "! Unusable": {toptest.Problem("a", "web", "so it is")}} {
		s := toptest.Service("a", "web", 1, 1)
		s.Problems = problems
		m := newScreen(t, &toptest.Script{Answers: []any{toptest.Document(0, s)}})
		m.size(150, 40)
		if row := m.overview.Columns[len(m.overview.Columns)-1].Text(m.overview.Shown[0]); !strings.HasPrefix(row, want) {
			t.Errorf("the row has %q, want %q", row, want)
		}
		m.press("enter")
		if head, _, _ := strings.Cut(m.draw(), "\n\n"); !strings.HasSuffix(strings.Split(head, "\n")[1], top.Separator+want) {
			t.Errorf("want %q:\n%s", want, m.draw())
		}
	}
}

func TestEmptyResultIsOnTheScreen(t *testing.T) {
	for namespace, want := range map[string]string{"nosuch": "! there is no Service in namespace nosuch", "": "! there are no Services", "a": ""} {
		d := toptest.Three(0)
		if namespace == "" {
			d = toptest.Document(0)
		}
		m := newScreenOf(t, &toptest.Script{Answers: []any{d}}, namespace)
		if drawn := m.draw(); !strings.Contains(drawn, want) || want == "" && strings.Contains(drawn, "! there") {
			t.Errorf("%q:\n%s", namespace, drawn)
		}
	}
}
