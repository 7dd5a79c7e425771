package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodes/onetest"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/top/toptest"
)

// result is what a run prints, and how long it took.
type result struct {
	out, errs string
	took      time.Duration
	err       error
}

// run runs with a script of answers, in a bubble.
func run(ctx context.Context, c Config, answers ...any) result {
	var out, errs bytes.Buffer
	if c.Out == nil {
		c.Out = &out
	}
	if c.Nodes == nil {
		c.Nodes = onetest.Node((&toptest.Script{Answers: answers}).Get)
	}
	c.Interval, c.Sort, c.Err = time.Second, "rate", &errs
	start := time.Now()
	err := Run(ctx, c)
	return result{out.String(), errs.String(), time.Since(start), err}
}

func TestOneTableOfOneInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t.Context(), Config{Count: 1}, toptest.Three(0), toptest.Three(1))
		const want = `NAMESPACE   SERVICE   CONN/S   ACTIVE   CONNECTIONS   ENDPOINTS   STATUS
b           quick     54.0     6        54            2/4         OK
c           middle    30.0     12       30            2/4         OK
a           slow      6.0      18       6             2/4         OK
12:00:01  1 node, 3 Services: 90.0 connections/s, 36 active, 90 so far; 0 with problems, 0 with notices, 0 problems of other objects
`
		if r.err != nil || r.errs != "" || r.took != time.Second || r.out != want {
			t.Errorf("%v after %s: %s\n%s, want\n%s", r.err, r.took, r.errs, r.out, want)
		}
	})
}

func TestTablesAreRepeatedUntilTheCountOrTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t.Context(), Config{Count: 3}, toptest.Three(0), toptest.Three(1), toptest.Three(2), toptest.Three(3))
		if r.err != nil || r.took != 3*time.Second || strings.Count(r.out, "\n\n") != 2 || strings.Count(r.out, "54.0") != 3 {
			t.Errorf("after %s: %v\n%s", r.took, r.err, r.out)
		}
		ctx, stop := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer stop()
		if r := run(ctx, Config{}, toptest.Three(0)); r.err != nil || strings.Count(r.out, "NAMESPACE") != 3 {
			t.Errorf("%v\n%s", r.err, r.out)
		}
	})
}

func TestSourcePausesAsLongAsItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := Run(t.Context(), Config{Nodes: onetest.Node((&toptest.Script{Answers: []any{toptest.Three(0)}, Takes: 3 * time.Second}).Get), Interval: time.Second, Sort: "rate", Count: 2, Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		if took := time.Since(start); err != nil || took != 13*time.Second {
			t.Errorf("three answers of 3 s, pauses of 1 s and 3 s: %s, %v", took, err)
		}
	})
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestErrors(t *testing.T) {
	gone, full := errors.New("the socket is gone"), errors.New("the disk is full")
	for name, c := range map[string]struct {
		config  Config
		answers []any
		want    error
		errs    string
	}{
		"the first query":      {Config{Count: 2}, []any{gone}, gone, ""},
		"the last query":       {Config{Count: 1}, []any{toptest.Three(0), gone}, gone, ""},
		"one between":          {Config{Count: 2}, []any{toptest.Three(0), gone, toptest.Three(2)}, nil, "error: the socket is gone\n"},
		"the reader has left":  {Config{Out: broken{syscall.EPIPE}}, []any{toptest.Three(0)}, nil, ""},
		"nothing can be print": {Config{Out: broken{full}}, []any{toptest.Three(0)}, full, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			if r := run(t.Context(), c.config, c.answers...); !errors.Is(r.err, c.want) || r.errs != c.errs {
				t.Errorf("%s: %v, %q, want %v, %q", name, r.err, r.errs, c.want, c.errs)
			}
		})
	}
}

func TestHangingSourceTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Run(t.Context(), Config{Interval: time.Second, Sort: "rate", Nodes: onetest.Node((&toptest.Script{Takes: time.Hour}).Get)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestInvalidOptionsNameTheirFlag(t *testing.T) {
	for flag, c := range map[string]Config{
		"--interval: ": {Interval: time.Millisecond, Sort: "rate"},
		"--sort: ":     {Interval: time.Second, Sort: "beauty"},
		"--count: ":    {Interval: time.Second, Sort: "rate", Count: -1},
		"-o xml: ":     {Interval: time.Second, Sort: "rate", Output: "xml"},
		"--limit: ":    {Interval: time.Second, Sort: "rate", Limit: -1},
	} {
		if err := Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestJSONHasRowsAndSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t.Context(), Config{Count: 1, Output: "json"}, toptest.Three(0), toptest.Three(1))
		var got struct {
			Items   []Row
			Summary Summary
		}
		if err := json.Unmarshal([]byte(r.out), &got); r.err != nil || err != nil || len(got.Items) != 3 {
			t.Fatalf("%v, %v\n%s", r.err, err, r.out)
		}
		if row, sum := got.Items[0], got.Summary; row.Name != "quick" || *row.Rate != 54 || row.Active != 6 || sum.Connections != 90 || sum.Services != 3 {
			t.Errorf("%+v, %+v", row, sum)
		}
	})
}

// TestIdleServicesAreShownOnRequest has three Services, of which one has no connections.
func TestIdleServicesAreShownOnRequest(t *testing.T) {
	at := func(after float64) *nodestatus.Document {
		return toptest.Document(after, toptest.Service("a", "busy", uint64(after), 3), toptest.Service("b", "idle", 7, 0), toptest.Service("c", "open", 7, 1))
	}
	for want, c := range map[string]Config{
		"busy open": {}, "busy idle open": {Idle: true}, "busy": {Limit: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.Count = 1
			r := run(t.Context(), c, at(0), at(1))
			var got []string
			for line := range strings.Lines(r.out) {
				got = append(got, strings.Fields(line)[1])
			}
			if names := strings.Join(got[1:len(got)-1], " "); r.err != nil || names != want {
				t.Errorf("%+v: %s, want %s, %v", c, names, want, r.err)
			}
		})
	}
}

// tableOf returns the table of one node's document as text.
func tableOf(d *nodestatus.Document, sort string) string {
	var out bytes.Buffer
	t := newTable(answer{documents: []*nodestatus.Document{d}}, readings{}, false)
	t.sort(sort)
	_ = t.write(&out, false) // a buffer has no errors
	return out.String() + strings.Join(t.warnings(), "\n")
}

func TestUncountedConnectionsHaveNoColumns(t *testing.T) {
	d := toptest.Three(0)
	d.Counted = false
	text := tableOf(d, "rate")
	if !strings.Contains(text, "--count-connections=false") || strings.Contains(text, "CONN") || !strings.Contains(text, ": 36 active connections;") {
		t.Error(text)
	}
	if strings.Index(text, "slow") > strings.Index(text, "middle") {
		t.Errorf("they are not sorted by active ones:\n%s", text)
	}
}

// TestFastPathIsShownIfOn has connections on the fast path of a node, before and after it was
// turned off.
func TestFastPathIsShownIfOn(t *testing.T) {
	d := toptest.Document(0, toptest.Service("a", "web", 1, 5))
	for i := range d.Services[0].Ports {
		d.Services[0].Ports[i].FastPath = 2
	}
	if text := tableOf(d, "rate"); strings.Contains(strings.ToLower(text), "fast") {
		t.Errorf("without the flag:\n%s", text)
	}
	d.Health = &nodestatus.Health{FastPath: &nodestatus.FastPath{On: true}}
	if text := tableOf(d, "fast-path"); !strings.Contains(text, ", 12 on the fast path;") || !strings.Contains(text, "ACTIVE   FAST-PATH") {
		t.Errorf("on:\n%s", text)
	}
	d.Health.FastPath = &nodestatus.FastPath{Reason: "another program has a flowtable\x1b"}
	if text := tableOf(d, "rate"); !strings.HasSuffix(text, "node-1 has the fast path off: another program has a flowtable?") || strings.Contains(text, "FAST-PATH") {
		t.Errorf("off:\n%s", text)
	}
}

func TestRowsAreSortedByEachColumn(t *testing.T) {
	broken, idle := toptest.Service("c", "broken", 50, 1), toptest.Service("b", "idle", 7, 0)
	broken.Problems = []nodestatus.Problem{{Object: "Service c/broken", Reason: "AddressConflict", Text: "held by\na/web"}}
	for i := range idle.Ports {
		idle.Ports[i].Endpoints = nil
	}
	d := toptest.Document(0, toptest.Service("a", "web", 1, 9), toptest.Service("b", "Zeta", 13, 3), idle, broken)
	for word, want := range map[string]string{
		"namespace":   "web Zeta idle broken",
		"service":     "Zeta broken idle web",
		"rate":        "web Zeta idle broken", // not known
		"active":      "web Zeta broken idle",
		"connections": "broken Zeta idle web",
		"endpoints":   "web Zeta broken idle",
		"status":      "broken web Zeta idle",
	} {
		var got []string
		for line := range strings.Lines(tableOf(d, word)) {
			got = append(got, strings.Fields(line)[1])
		}
		if text := strings.Join(got[1:len(got)-1], " "); text != want {
			t.Errorf("by %s: %s, want %s", word, text, want)
		}
	}
	if text := tableOf(d, "rate"); !strings.Contains(text, "   AddressConflict: held by; a/web\n") || !strings.Contains(text, "; 1 with problems,") {
		t.Error(text)
	}
}

// webRate returns the rate of the only Service, or -1 if it is not known.
func webRate(rates map[key]float64) float64 {
	if rate, known := rates[key{namespace: "default", name: "web"}]; known {
		return rate
	}
	return -1
}

func web(n uint64) nodestatus.Service { return toptest.Service("default", "web", n, 0) }

func TestRateIsPerSecondOfDocumentTime(t *testing.T) {
	reset, uncounted := web(104), toptest.Document(1, web(5))
	reset.Ports[2].Connections = 3
	uncounted.Counted = false
	for name, c := range map[string]struct {
		before, after *nodestatus.Document
		want          float64
	}{
		"after a second":                     {toptest.Document(0, web(10)), toptest.Document(1, web(15)), 5 * toptest.PortsEach},
		"after half a second":                {toptest.Document(0, web(10)), toptest.Document(0.5, web(15)), 10 * toptest.PortsEach},
		"with nothing new":                   {toptest.Document(0, web(10)), toptest.Document(2, web(10)), 0},
		"when all counters began again":      {toptest.Document(0, web(100)), toptest.Document(1, web(7)), -1},
		"when one counter began again":       {toptest.Document(0, web(100)), toptest.Document(1, reset), -1},
		"of a Service that was not there":    {toptest.Document(0), toptest.Document(1, web(1000)), -1},
		"when the clock went back":           {toptest.Document(5, web(10)), toptest.Document(1, web(15)), -1},
		"when connections are not counted":   {toptest.Document(0, web(0)), uncounted, -1},
		"when connections were not counted":  {uncounted, toptest.Document(2, web(9)), -1},
		"of the first document of a process": {toptest.Document(0), toptest.Document(0, web(9)), -1},
	} {
		r := readings{}
		r.rates(c.before, itemsOf(c.before, false))
		if got := webRate(r.rates(c.after, itemsOf(c.after, false))); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestRateStaysUntilTheNextRead has a node that reads its counters once per second and is
// asked more often.
func TestRateStaysUntilTheNextRead(t *testing.T) {
	r := readings{}
	for i, step := range []struct {
		asked, read float64
		count       uint64
		want        float64
	}{{0, 0, 100, -1}, {0.4, 0, 100, -1}, {1, 1, 105, 30}, {1.9, 1, 105, 30}, {2.2, 2, 105, 0}, {5, 4, 113, 24}} {
		d := toptest.Document(step.asked, web(step.count))
		d.CountedAt = toptest.Document(step.read).Time
		if got := webRate(r.rates(d, itemsOf(d, false))); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

// TestNodesAreAddedUp has two nodes that read their counters at different times, and one of
// them misses a query.
func TestNodesAreAddedUp(t *testing.T) {
	documents := func(after float64) []*nodestatus.Document {
		one, two := toptest.Three(after), toptest.Three(2*after+0.5)
		two.Node = "node-2"
		two.Services[0].Problems = []nodestatus.Problem{{Object: "Service a/slow", Reason: "Unusable", Text: "so it is"}}
		return []*nodestatus.Document{one, two}
	}
	r := readings{}
	for i, step := range []struct {
		answer answer
		rate   string
	}{
		{answer{documents: documents(0)}, ": - connections/s"},
		{answer{documents: documents(10)}, "2 nodes, 3 Services: 180.0 connections/s, 72 active"},
		{answer{documents: documents(20)[:1], failed: []string{"node-2 is gone", "b", "c", "d", "e"}}, "1 node, 3 Services: 90.0 connections/s"},
		{answer{documents: documents(30)}, ": 180.0 connections/s"},
	} {
		table := newTable(step.answer, r, false)
		if got := table.text(); !strings.Contains(got, step.rate) {
			t.Errorf("answer %d: %s, want %s", i, got, step.rate)
		}
		if failed := table.warnings(); len(step.answer.failed) > 0 && (len(failed) != 4 || failed[0] != "node-2 is gone" || failed[3] != "and 2 more nodes") {
			t.Errorf("five nodes do not answer: %q", failed)
		}
		if row := table.rows[0]; len(step.answer.documents) > 1 && (row.State != "Unusable" || row.Problem != "so it is") {
			t.Errorf("the worst state is not shown: %+v", row)
		}
	}
}

// TestEndpointsHaveRows has the connections of each endpoint, over all ports of its Service.
func TestEndpointsHaveRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t.Context(), Config{Count: 1, Endpoints: true, Idle: true}, toptest.Three(0), toptest.Three(1))
		const want = `NAMESPACE   SERVICE   ENDPOINT           NODE     CONN/S   ACTIVE   CONNECTIONS   STATUS
b           quick     10.244.1.1         node-1   27.0     3        27            OK
b           quick     fd00:10:244:1::1   node-1   27.0     3        27            OK
c           middle    10.244.1.1         node-1   15.0     6        15            OK
`
		if r.err != nil || !strings.HasPrefix(r.out, want) || !strings.Contains(r.out, "10.244.1.2         node-2   0.0      0        0             NotReady\n") ||
			!strings.HasSuffix(r.out, "12:00:01  1 node, 12 endpoints: 90.0 connections/s, 36 active, 90 so far\n") {
			t.Errorf("%v\n%s, want\n%s", r.err, r.out, want)
		}
	})
}

// fleet has nodes by name; one without a program does not answer.
type fleet struct {
	onetest.Node
	nodes []nodes.Node
	limit int
	asked map[string]int
	busy  map[string]*toptest.Script
}

func (f *fleet) Find(context.Context) (nodes.List, error) {
	return nodes.List{Nodes: slices.Clone(f.nodes), Limit: f.limit}, nil
}

func (f *fleet) Document(ctx context.Context, n nodes.Node, q nodestatus.Query) (*nodestatus.Document, error) {
	f.asked[n.Name]++
	if s := f.busy[n.Name]; s != nil {
		return s.Get(ctx, q)
	}
	return nil, errors.New("no kube-vmap answers")
}

// newFleet has node-1, which answers, and node-2, which does not.
func newFleet() (*fleet, *reader) {
	f := &fleet{
		nodes: []nodes.Node{{Name: "node-1"}, {Name: "node-2"}}, limit: 1, asked: map[string]int{},
		busy: map[string]*toptest.Script{"node-1": {Answers: []any{toptest.Three(0)}}},
	}
	return f, &reader{f, map[string]failure{}}
}

// TestFailingNodesAreLeftAlone has a node that costs its time-out, for which others would wait.
func TestFailingNodesAreLeftAlone(t *testing.T) {
	f, r := newFleet()
	for range 3 {
		if a, err := r.read(t.Context(), nodestatus.Query{}); err != nil || len(a.documents) != 1 || len(a.failed) != 1 || !strings.HasPrefix(a.failed[0], "node-2: ") {
			t.Errorf("%+v, %v", a, err)
		}
	}
	for i, change := range []func(f *failure){
		func(f *failure) { f.at = f.at.Add(-retryPeriod) },
		func(f *failure) { f.pod = "replaced" },
	} {
		last := r.failing["node-2"]
		change(&last)
		r.failing["node-2"] = last
		if _, err := r.read(t.Context(), nodestatus.Query{}); err != nil || f.asked["node-2"] != 2+i {
			t.Errorf("it is asked %d times, %v", f.asked["node-2"], err)
		}
	}
	f.nodes[0] = nodes.Node{Name: "node-1", Missing: true}
	if _, err := r.read(t.Context(), nodestatus.Query{}); err == nil || f.asked["node-2"] != 4 {
		t.Errorf("without others, it is asked %d times, %v", f.asked["node-2"], err)
	}
}

// TestNodesWaitForNoneThatIsNotReady has one node at a time, the first one silent: it takes all the
// time of a query, unless it is asked last. What was not asked has not failed.
func TestNodesWaitForNoneThatIsNotReady(t *testing.T) {
	for _, why := range []string{"pod p is not ready", ""} {
		synctest.Test(t, func(t *testing.T) {
			f, r := newFleet()
			f.nodes = []nodes.Node{{Name: "a", Why: why}, {Name: "node-1"}}
			f.busy["a"] = &toptest.Script{Takes: time.Hour}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			a, err := r.read(ctx, nodestatus.Query{})
			if _, failed := r.failing["node-1"]; failed || why != "" && len(a.documents) != 1 {
				t.Errorf("a %q: %+v, %v, failing %v", why, a, err, r.failing)
			}
		})
	}
}
