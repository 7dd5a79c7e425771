package top

import (
	"testing"
	"time"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top/toptest"
)

func TestRateIsPerSecondOfDocumentTime(t *testing.T) {
	web := func(n uint64) status.Service { return toptest.Service("default", "web", n, 0) }
	fresh := web(0)
	fresh.Ports[3].Name = "another"
	for _, c := range []struct {
		says          string
		before, after *status.Document
		rate          float64
		rated         bool
	}{
		{"after a second", toptest.Document(0, web(10)), toptest.Document(1, web(15)), 5 * toptest.PortsEach, true},
		{"after half a second", toptest.Document(0, web(10)), toptest.Document(0.5, web(15)), 10 * toptest.PortsEach, true},
		{"after a minute", toptest.Document(0, web(0)), toptest.Document(60, web(30)), 0.5 * toptest.PortsEach, true},
		{"with nothing new", toptest.Document(0, web(10)), toptest.Document(2, web(10)), 0, true},
		{"when all counters began again", toptest.Document(0, web(100)), toptest.Document(1, web(7)), 7 * toptest.PortsEach, true},
		{"of a Service that was not there", toptest.Document(0), toptest.Document(1, web(1000)), 0, false},
		{"of the first document", nil, toptest.Document(1, web(1000)), 0, false},
		{"of a port that was not there", toptest.Document(0, fresh), toptest.Document(1, web(3)), 3 * (toptest.PortsEach - 1), true},
		{"when the clock went back", toptest.Document(5, web(10)), toptest.Document(1, web(15)), 0, false},
	} {
		t.Run(c.says, func(t *testing.T) {
			var before *Sheet
			if c.before != nil {
				before = sheetOf(c.before, serviceRows, nil)
			}
			r := sheetOf(c.after, serviceRows, before).rows[0]
			if r.rate != c.rate || r.rated != c.rated {
				t.Errorf("the rate is %v (known: %v), want %v (%v)", r.rate, r.rated, c.rate, c.rated)
			}
		})
	}
}

func TestResetCounterDoesNotHideOthers(t *testing.T) {
	before, after := toptest.Service("default", "web", 100, 0), toptest.Service("default", "web", 104, 0)
	after.Ports[2].Connections = 3
	s := sheetOf(toptest.Document(1, after), serviceRows, sheetOf(toptest.Document(0, before), serviceRows, nil))
	if want := float64(4*(toptest.PortsEach-1) + 3); s.rows[0].rate != want {
		t.Errorf("the rate is %v, want %v", s.rows[0].rate, want)
	}
}

// TestRateStaysUntilTheNextRead has a source that reads its counters once per second and is
// queried more often.
func TestRateStaysUntilTheNextRead(t *testing.T) {
	var s *Sheet
	for i, step := range []struct {
		asked, read float64
		count       uint64
		rate        float64
		rated       bool
	}{
		{0, 0, 100, 0, false},
		{0, 0, 100, 0, false}, // the same document
		{0.4, 0, 100, 0, false},
		{1, 1, 105, 5, true},
		{1.9, 1, 105, 5, true},
		{2.2, 2, 105, 0, true}, // no new connections
		{2.9, 2, 105, 0, true},
		{5, 4, 113, 4, true}, // over two seconds
		{6, 4.5, 114, 2, true},
	} {
		d := toptest.Document(step.asked, toptest.Service("default", "web", step.count, 0))
		d.CountedAt = toptest.Document(step.read).Time
		s = sheetOf(d, serviceRows, s)
		if r := s.rows[0]; r.rate != step.rate*toptest.PortsEach || r.rated != step.rated {
			t.Errorf("step %d: the rate is %v (known: %v), want %v (%v)", i, r.rate, r.rated, step.rate*toptest.PortsEach, step.rated)
		}
	}
}

func TestUncountedRowsHaveNoRate(t *testing.T) {
	one, two := toptest.Document(0, toptest.Service("default", "web", 0, 0)), toptest.Document(1, toptest.Service("default", "web", 5, 2))
	two.Counted = false
	s := sheetOf(two, serviceRows, sheetOf(one, serviceRows, nil))
	if s.rows[0].rated || s.rated {
		t.Error("there is a rate")
	}
}

func TestTotalsCountEachConnectionOnce(t *testing.T) {
	one := toptest.Document(0, toptest.Service("a", "one", 1, 2), toptest.Service("b", "two", 3, 4))
	two := toptest.Document(2, toptest.Service("a", "one", 5, 2), toptest.Service("b", "two", 5, 4))
	s := sheetOf(two, serviceRows, sheetOf(one, serviceRows, nil))
	want := traffic{rate: (4 + 2) / 2 * toptest.PortsEach, active: 6 * toptest.PortsEach, connections: 10 * toptest.PortsEach}
	if s.total != want {
		t.Errorf("of all Services: %+v, want %+v", s.total, want)
	}
	// Frontends and endpoints count the same connections.
	d := sheetOf(toptest.Only(two, status.Query{Name: "one"}), detailRows, sheetOf(toptest.Only(one, status.Query{Name: "one"}), detailRows, nil))
	want = traffic{rate: 2 * toptest.PortsEach, active: 2 * toptest.PortsEach, connections: 5 * toptest.PortsEach}
	if d.total != want {
		t.Errorf("of one Service: %+v, want %+v", d.total, want)
	}
}

func TestFrontendsAndEndpointsHaveRates(t *testing.T) {
	one, two := toptest.Service("a", "one", 0, 0), toptest.Service("a", "one", 0, 0)
	for i := range two.Ports {
		two.Ports[i].Frontends[1].Connections = uint64(i + 1)
		two.Ports[i].Endpoints[0].Connections = uint64(10 * (i + 1))
	}
	s := sheetOf(toptest.Document(1, two), detailRows, sheetOf(toptest.Document(0, one), detailRows, nil))
	for i := range two.Ports {
		rows := s.rows[4*i:]
		if rows[0].rate != 0 || rows[1].rate != float64(i+1) || rows[2].rate != float64(10*(i+1)) || rows[3].rate != 0 {
			t.Errorf("port %d: rates are %v, %v, %v and %v", i, rows[0].rate, rows[1].rate, rows[2].rate, rows[3].rate)
		}
	}
}

func TestSourcePausesAsLongAsItTook(t *testing.T) {
	for _, c := range []struct{ took, want time.Duration }{
		{0, time.Second},
		{300 * time.Millisecond, time.Second},
		{3 * time.Second, 3 * time.Second},
	} {
		if got := NextDelay(time.Second, c.took); got != c.want {
			t.Errorf("after %s it rests for %s, want %s", c.took, got, c.want)
		}
	}
}
