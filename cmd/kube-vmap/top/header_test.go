package top

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"kube-vmap/sync/status"
)

// TestTheHeaderCountsWhatHasAMark has Services with problems of all sorts, and some
// without any that have no endpoints.
func TestTheHeaderCountsWhatHasAMark(t *testing.T) {
	problem := func(name, reason string) status.Service {
		s := service("a", name, 1, 1)
		s.Problems = []status.Problem{{Object: "Service a/" + name, Reason: reason, Text: "so it is"}, {Object: "Service a/" + name, Reason: reason, Text: "and so"}}
		return s
	}
	none := service("a", "none", 0, 0)
	none.Ports[3].Frontends[0].Verdict = status.VerdictReject
	for _, tc := range []struct {
		services []status.Service
		others   int
		want     string
	}{
		{[]status.Service{service("a", "web", 1, 1)}, 0, "no problems"},
		{[]status.Service{service("a", "web", 1, 1), none}, 0, "! 1 with problems"},
		{[]status.Service{none, problem("held", "AddressConflict"), problem("unwell", "FailedToStartServiceHealthcheck")}, 0, "! 3 with problems"},
		{[]status.Service{problem("open", "OpenToAnyone")}, 0, "no problems"}, // it may be meant so
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
		if head := strings.Split(text, "\n")[1]; !strings.HasSuffix(head, "connections  "+tc.want) || strings.Count(text, " ! ")-strings.Count(head, " ! ") != p.sheet.marked {
			t.Errorf("want %q:\n%s", tc.want, text)
		}
	}
}

// TestAPartOfAServiceWithAMarkIsCounted counts the lines of the screen.
func TestAPartOfAServiceWithAMarkIsCounted(t *testing.T) {
	s := service("a", "web", 1, 1)
	s.Problems = []status.Problem{problemOf("a", "web", "so it is")}
	m := newScreen(t, &script{answers: []any{document(0, s)}})
	m.size(150, 40)
	m.press("enter")
	head, rest, _ := strings.Cut(m.draw(), "\n\n")
	if n := strings.Count(rest, "! "); !strings.HasSuffix(head, fmt.Sprintf("! %d problems", n)) {
		t.Errorf("%d marks:\n%s", n, m.draw())
	}
}

func TestThatThereIsNothingIsSaid(t *testing.T) {
	for namespace, want := range map[string]string{"nosuch": "! there is no Service of namespace nosuch\n", "": "! there are no Services\n", "a": ""} {
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
			m.wear(colourless())
			m.width, m.height = 100, 20
			if drawn := m.draw(); !strings.Contains(drawn, strings.TrimSpace(want)) || want == "" && strings.Contains(drawn, "! there") {
				t.Errorf("%q:\n%s", namespace, drawn)
			}
		})
	}
}
