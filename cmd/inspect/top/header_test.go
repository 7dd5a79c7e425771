package top

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top/toptest"
)

// TestHeaderCountsMarkedServices has Services with all kinds of problems, and Services without
// problems that have no endpoints.
func TestHeaderCountsMarkedServices(t *testing.T) {
	problem := func(name, reason string) status.Service {
		s := toptest.Service("a", name, 1, 1)
		s.Problems = []status.Problem{{Object: "Service a/" + name, Reason: reason, Text: "so it is"}, {Object: "Service a/" + name, Reason: reason, Text: "and so"}}
		return s
	}
	none := toptest.Service("a", "none", 0, 0)
	none.Ports[3].Frontends[0].Verdict = status.VerdictReject
	elsewhere := toptest.Service("a", "elsewhere", 0, 0)
	elsewhere.Ports[3].Frontends[1].Verdict = status.VerdictDrop
	for _, tc := range []struct {
		services []status.Service
		others   int
		want     string
	}{
		{[]status.Service{toptest.Service("a", "web", 1, 1)}, 0, "no problems"},
		{[]status.Service{toptest.Service("a", "web", 1, 1), none}, 0, "! 1 with problems"},
		{[]status.Service{none, problem("held", "AddressConflict"), problem("unwell", "FailedToStartServiceHealthcheck")}, 0, "! 3 with problems"},
		{[]status.Service{problem("open", "OpenToAnyone"), elsewhere}, 0, "no problems  2 with notices"},
		{[]status.Service{elsewhere, none}, 1, "! 1 with problems  1 with notices  ! 1 problem of other objects"},
		{[]status.Service{none}, 1, "! 1 with problems  ! 1 problem of other objects"},
		{[]status.Service{toptest.Service("a", "web", 1, 1)}, 2, "! 2 problems of other objects"},
	} {
		d := toptest.Document(0, tc.services...)
		for range tc.others {
			d.Problems = append(d.Problems, status.Problem{Object: "EndpointSlice a/x", Reason: "Unusable", Text: "bad"})
		}
		p := NewOverview(Config{Sort: "rate"})
		p.Show(sheetOf(d, serviceRows, nil))
		text := plainText(p)
		if head := strings.Split(text, "\n")[1]; !strings.HasSuffix(head, "connections  "+tc.want) || strings.Count(text, " ! ")-strings.Count(head, " ! ") != p.Sheet.summary.Problems {
			t.Errorf("want %q:\n%s", tc.want, text)
		}
	}
}

// TestFastPathIsShownOnceAskedFor has connections on the fast path of a node, before and after it
// was turned off.
func TestFastPathIsShownOnceAskedFor(t *testing.T) {
	d := toptest.Document(0, toptest.Service("a", "web", 1, 5))
	for i := range d.Services[0].Ports {
		d.Services[0].Ports[i].FastPath = 2
	}
	show := func() string {
		p := NewOverview(Config{Sort: "rate"})
		p.Show(sheetOf(d, serviceRows, nil))
		return plainText(p)
	}
	if text := show(); strings.Contains(strings.ToLower(text), "fast") {
		t.Errorf("without the flag:\n%s", text)
	}
	d.Health = &status.Health{FastPath: &status.FastPath{On: true}}
	if text := show(); !strings.Contains(text, "30 active  12 on the fast path  ") || !strings.Contains(text, "ACTIVE  FAST-PATH") || strings.Contains(text, "! ") {
		t.Errorf("on:\n%s", text)
	}
	d.Health.FastPath = &status.FastPath{Reason: "another program has a flowtable\x1b"}
	if text := show(); !strings.Contains(text, "! node-1: the fast path is off: another program has a flowtable?\n") || strings.Contains(text, "FAST-PATH") {
		t.Errorf("off:\n%s", text)
	}
}

func TestEmptyResultIsReported(t *testing.T) {
	for namespace, want := range map[string]string{"nosuch": "! there is no Service in namespace nosuch\n", "": "! there are no Services\n", "a": ""} {
		synctest.Test(t, func(t *testing.T) {
			d := toptest.Three(0)
			if namespace == "" {
				d = toptest.Document(0)
			}
			s := &toptest.Script{Answers: []any{d}}
			out, _, err := run(t.Context(), t, s, Config{Count: 1, Namespace: namespace})
			if err != nil || !strings.Contains(out, want) || want == "" && strings.Contains(out, "! there") {
				t.Errorf("%q: %v\n%s", namespace, err, out)
			}
		})
	}
}

// plainText returns a table as lines.
func plainText(t *Table) string {
	var b bytes.Buffer
	t.block(&b)
	return b.String()
}
