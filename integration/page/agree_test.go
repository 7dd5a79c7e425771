package page

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	getter "kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/top"
)

// everyState is a node with a Service in each state of the daemon.
func everyState() *fleet {
	f := shop(0)
	n := f.at["node-1"]
	for i, reason := range []string{"RefusedByKernel", "Unusable", "OpenToAnyone", "OtherReason"} {
		name := strings.ToLower(reason)
		n.Services = append(n.Services, nodestatus.Service{
			Namespace: "states", Name: name, Ports: []nodestatus.Port{port("", "TCP", "IPv4", 80, 20+i, 2)},
			Problems: []nodestatus.Problem{{Object: "Service states/" + name, Reason: reason, Text: "it is so"}, {Object: "Service states/" + name, Reason: reason, Text: "and so"}},
		})
	}
	none := nodestatus.Service{Namespace: "states", Name: "none", Ports: []nodestatus.Port{port("", "UDP", "IPv6", 53, 30, 0), port("", "TCP", "IPv6", 53, 30, 0)}}
	missing := nodestatus.Service{Namespace: "states", Name: "missing", Ports: []nodestatus.Port{port("http", "SCTP", "IPv4", 80, 31, 0)}}
	missing.Ports[0].Frontends = nil
	n.Services = append(n.Services, none, missing)
	return f
}

// view is the state and the number of endpoints of each Service, and the number of Services of
// each severity.
type view struct {
	states, endpoints          map[string]string
	problems, notices, healthy []string
}

func newView() view { return view{states: map[string]string{}, endpoints: map[string]string{}} }

// ofGet returns the view of kube-vmap get.
func ofGet(t *testing.T, f *fleet) view {
	t.Helper()
	v := newView()
	run := func(selector string) (names []string) {
		var out bytes.Buffer
		o := getter.Options{Args: []string{"svc"}, AllNamespaces: true, NoHeaders: true, FieldSelector: selector}
		source := func(ctx context.Context, q nodestatus.Query) (*nodestatus.Document, string, error) {
			d, err := f.Document(ctx, f.nodes[0], q)
			return d, "", err
		}
		if err := getter.Run(t.Context(), o, source, &out, &out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			cells := strings.Fields(line)
			names = append(names, cells[1])
			v.endpoints[cells[1]], v.states[cells[1]] = cells[5], cells[8]
		}
		slices.Sort(names)
		return names
	}
	v.problems, v.notices, v.healthy = run("severity=Problem"), run("severity=Notice"), run("severity=OK")
	return v
}

// ofTop returns the view of kube-vmap top, and its summary line.
func ofTop(t *testing.T, f *fleet) (v view, head string) {
	t.Helper()
	var out bytes.Buffer
	c := top.Config{Source: top.OneNode(func(ctx context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
		return f.Document(ctx, f.nodes[0], q)
	}), Interval: top.MinInterval, Sort: "service", Out: &out, Err: &out, Count: 1}
	if err := top.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	v = newView()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := len(lines) - 1
	for _, line := range lines[1:last] {
		cells := strings.Fields(line)
		name, state := cells[1], strings.TrimSuffix(cells[6], ":")
		v.endpoints[name], v.states[name] = cells[5], state
		if nodestatus.SeverityOf(state) == nodestatus.SeverityProblem {
			v.problems = append(v.problems, name)
		}
	}
	slices.Sort(v.problems)
	return v, lines[last]
}

// ofPage returns the view of the status page, by its filters.
func ofPage(w *window) view {
	w.Helper()
	v := newView()
	only := func(chip string) []string {
		get[bool](w, fmt.Sprintf(`(document.querySelector('.chip[data-key="%s"]').click(), true)`, chip))
		for _, row := range get[[][]string](w, `[...document.querySelectorAll(".rows .row")].map(r => [".c-name .name", ".c-endpoints", ".c-status"].map(c => r.querySelector(c).textContent))`) {
			v.endpoints[row[0]], v.states[row[0]] = strings.ReplaceAll(row[1], " ", ""), row[2]
		}
		names := get[[]string](w, shown)
		if got := w.text(fmt.Sprintf(`.chip[data-key="%s"] .n`, chip)); got != fmt.Sprint(len(names)) {
			w.Errorf("the filter %s counts %s and shows %d", chip, got, len(names))
		}
		slices.Sort(names)
		return names
	}
	v.problems, v.notices, v.healthy = only("problem"), only("notice"), only("ok")
	return v
}

// TestGetTopAndPageAgree compares the views of one state.
func TestGetTopAndPageAgree(t *testing.T) {
	f := everyState()
	want := ofGet(t, f)
	inTop, head := ofTop(t, f)
	w := rows(t, f)
	onPage := ofPage(w)
	for who, got := range map[string]view{"top": inTop, "the page": onPage} {
		if !maps.Equal(got.states, want.states) {
			t.Errorf("%s has the states %v, get %v", who, got.states, want.states)
		}
		if !maps.Equal(got.endpoints, want.endpoints) {
			t.Errorf("%s has the endpoints %v, get %v", who, got.endpoints, want.endpoints)
		}
		if !slices.Equal(got.problems, want.problems) {
			t.Errorf("%s has problems with %v, get with %v", who, got.problems, want.problems)
		}
	}
	if !slices.Equal(onPage.notices, want.notices) || !slices.Equal(onPage.healthy, want.healthy) {
		t.Errorf("the page has notices for %v and none for %v, get for %v and %v", onPage.notices, onPage.healthy, want.notices, want.healthy)
	}
	const others = 2
	sum := f.at["node-1"].Summary()
	if sum != (nodestatus.Summary{Services: len(want.states), Problems: len(want.problems), Notices: len(want.notices), Others: others}) {
		t.Errorf("the document has %+v", sum)
	}
	if text := fmt.Sprintf("; %d with problems, %d with notices, %d problems of other objects", len(want.problems), len(want.notices), others); !strings.HasSuffix(head, text) {
		t.Errorf("top says %q, want %q", head, text)
	}
	w.says(".card-problems dd", fmt.Sprintf("%d + %d notices", len(want.problems)+others, len(want.notices)))
	for _, s := range []string{nodestatus.StateRefused, nodestatus.StateUnusable, nodestatus.StateNotProgrammed, nodestatus.StateNoPort, nodestatus.StateNoEndpoints} {
		if !slices.Contains(slices.Collect(maps.Values(want.states)), s) {
			t.Errorf("no Service is %s", s)
		}
	}
}
