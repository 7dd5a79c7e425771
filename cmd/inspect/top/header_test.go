package top

import (
	"strings"
	"testing"
	"testing/synctest"

	"kube-vmap/cmd/inspect/status"
)

// TestHeaderCountsMarkedServices has Services with all kinds of problems, and Services without
// problems that have no endpoints.
func TestHeaderCountsMarkedServices(t *testing.T) {
	problem := func(name, reason string) status.Service {
		s := service("a", name, 1, 1)
		s.Problems = []status.Problem{{Object: "Service a/" + name, Reason: reason, Text: "so it is"}, {Object: "Service a/" + name, Reason: reason, Text: "and so"}}
		return s
	}
	none := service("a", "none", 0, 0)
	none.Ports[3].Frontends[0].Verdict = status.VerdictReject
	elsewhere := service("a", "elsewhere", 0, 0)
	elsewhere.Ports[3].Frontends[1].Verdict = status.VerdictDrop
	for _, tc := range []struct {
		services []status.Service
		others   int
		want     string
	}{
		{[]status.Service{service("a", "web", 1, 1)}, 0, "no problems"},
		{[]status.Service{service("a", "web", 1, 1), none}, 0, "! 1 with problems"},
		{[]status.Service{none, problem("held", "AddressConflict"), problem("unwell", "FailedToStartServiceHealthcheck")}, 0, "! 3 with problems"},
		{[]status.Service{problem("open", "OpenToAnyone"), elsewhere}, 0, "no problems  2 with notices"},
		{[]status.Service{elsewhere, none}, 1, "! 1 with problems  1 with notices  ! 1 problem of other objects"},
		{[]status.Service{none}, 1, "! 1 with problems  ! 1 problem of other objects"},
		{[]status.Service{service("a", "web", 1, 1)}, 2, "! 2 problems of other objects"},
	} {
		d := document(0, tc.services...)
		for range tc.others {
			d.Problems = append(d.Problems, status.Problem{Object: "EndpointSlice a/x", Reason: "Unusable", Text: "bad"})
		}
		p := newOverview(Config{Sort: "rate"})
		p.show(newSheet(d, serviceRows, nil))
		text := plainText(p)
		if head := strings.Split(text, "\n")[1]; !strings.HasSuffix(head, "connections  "+tc.want) || strings.Count(text, " ! ")-strings.Count(head, " ! ") != p.sheet.summary.Problems {
			t.Errorf("want %q:\n%s", tc.want, text)
		}
	}
}

// TestServiceStateEqualsItsRow has an endpoint that is not ready, which is not a problem.
func TestServiceStateEqualsItsRow(t *testing.T) {
	for want, problems := range map[string][]status.Problem{"OK": nil, "! Unusable": {problemOf("a", "web", "so it is")}} {
		s := service("a", "web", 1, 1)
		s.Problems = problems
		m := newScreen(t, &script{answers: []any{document(0, s)}})
		m.size(150, 40)
		if row := m.overview.shown[0].status; !strings.HasPrefix(row, want) {
			t.Errorf("the row has %q, want %q", row, want)
		}
		m.press("enter")
		if head, _, _ := strings.Cut(m.draw(), "\n\n"); !strings.HasSuffix(strings.Split(head, "\n")[1], separator+want) {
			t.Errorf("want %q:\n%s", want, m.draw())
		}
	}
}

func TestEmptyResultIsReported(t *testing.T) {
	for namespace, want := range map[string]string{"nosuch": "! there is no Service in namespace nosuch\n", "": "! there are no Services\n", "a": ""} {
		synctest.Test(t, func(t *testing.T) {
			d := three(0)
			if namespace == "" {
				d = document(0)
			}
			s := &script{answers: []any{d}}
			out, _, err := run(t.Context(), t, s, Config{Count: 1, Namespace: namespace})
			if err != nil || !strings.Contains(out, want) || want == "" && strings.Contains(out, "! there") {
				t.Errorf("%q: %v\n%s", namespace, err, out)
			}
			m := newModel(Config{Sort: "rate", Namespace: namespace}, nil, newSheet(only(d, status.Query{Namespace: namespace}), serviceRows, nil))
			m.setStyle(colourless())
			m.width, m.height = 100, 20
			if drawn := m.draw(); !strings.Contains(drawn, strings.TrimSpace(want)) || want == "" && strings.Contains(drawn, "! there") {
				t.Errorf("%q:\n%s", namespace, drawn)
			}
		})
	}
}
