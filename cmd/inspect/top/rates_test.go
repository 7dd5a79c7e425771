package top

import (
	"testing"
	"time"

	"kube-vmap/cmd/inspect/status"
)

func TestRateIsPerSecondOfDocumentTime(t *testing.T) {
	web := func(n uint64) status.Service { return service("default", "web", n, 0) }
	fresh := web(0)
	fresh.Ports[3].Name = "another"
	for _, c := range []struct {
		says          string
		before, after *status.Document
		rate          float64
		rated         bool
	}{
		{"after a second", document(0, web(10)), document(1, web(15)), 5 * portsEach, true},
		{"after half a second", document(0, web(10)), document(0.5, web(15)), 10 * portsEach, true},
		{"after a minute", document(0, web(0)), document(60, web(30)), 0.5 * portsEach, true},
		{"with nothing new", document(0, web(10)), document(2, web(10)), 0, true},
		{"when all counters began again", document(0, web(100)), document(1, web(7)), 7 * portsEach, true},
		{"of a Service that was not there", document(0), document(1, web(1000)), 0, false},
		{"of the first document", nil, document(1, web(1000)), 0, false},
		{"of a port that was not there", document(0, fresh), document(1, web(3)), 3 * (portsEach - 1), true},
		{"when the clock went back", document(5, web(10)), document(1, web(15)), 0, false},
	} {
		t.Run(c.says, func(t *testing.T) {
			var before *sheet
			if c.before != nil {
				before = newSheet(c.before, serviceRows, nil)
			}
			r := newSheet(c.after, serviceRows, before).rows[0]
			if r.rate != c.rate || r.rated != c.rated {
				t.Errorf("the rate is %v (known: %v), want %v (%v)", r.rate, r.rated, c.rate, c.rated)
			}
		})
	}
}

func TestResetCounterDoesNotHideOthers(t *testing.T) {
	before, after := service("default", "web", 100, 0), service("default", "web", 104, 0)
	after.Ports[2].Connections = 3
	s := newSheet(document(1, after), serviceRows, newSheet(document(0, before), serviceRows, nil))
	if want := float64(4*(portsEach-1) + 3); s.rows[0].rate != want {
		t.Errorf("the rate is %v, want %v", s.rows[0].rate, want)
	}
}

// TestRateStaysUntilTheNextRead has a source that reads its counters once per second and is
// queried more often.
func TestRateStaysUntilTheNextRead(t *testing.T) {
	var s *sheet
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
		d := document(step.asked, service("default", "web", step.count, 0))
		d.CountedAt = document(step.read).Time
		s = newSheet(d, serviceRows, s)
		if r := s.rows[0]; r.rate != step.rate*portsEach || r.rated != step.rated {
			t.Errorf("step %d: the rate is %v (known: %v), want %v (%v)", i, r.rate, r.rated, step.rate*portsEach, step.rated)
		}
	}
}

func TestUncountedRowsHaveNoRate(t *testing.T) {
	one, two := document(0, service("default", "web", 0, 0)), document(1, service("default", "web", 5, 2))
	two.Counted = false
	s := newSheet(two, serviceRows, newSheet(one, serviceRows, nil))
	if s.rows[0].rated || s.rated {
		t.Error("there is a rate")
	}
}

func TestTotalsCountEachConnectionOnce(t *testing.T) {
	one := document(0, service("a", "one", 1, 2), service("b", "two", 3, 4))
	two := document(2, service("a", "one", 5, 2), service("b", "two", 5, 4))
	s := newSheet(two, serviceRows, newSheet(one, serviceRows, nil))
	want := traffic{rate: (4 + 2) / 2 * portsEach, active: 6 * portsEach, connections: 10 * portsEach}
	if s.total != want {
		t.Errorf("of all Services: %+v, want %+v", s.total, want)
	}
	// Frontends and endpoints count the same connections.
	d := newSheet(only(two, status.Query{Name: "one"}), detailRows, newSheet(only(one, status.Query{Name: "one"}), detailRows, nil))
	want = traffic{rate: 2 * portsEach, active: 2 * portsEach, connections: 5 * portsEach}
	if d.total != want {
		t.Errorf("of one Service: %+v, want %+v", d.total, want)
	}
}

func TestFrontendsAndEndpointsHaveRates(t *testing.T) {
	one, two := service("a", "one", 0, 0), service("a", "one", 0, 0)
	for i := range two.Ports {
		two.Ports[i].Frontends[1].Connections = uint64(i + 1)
		two.Ports[i].Endpoints[0].Connections = uint64(10 * (i + 1))
	}
	s := newSheet(document(1, two), detailRows, newSheet(document(0, one), detailRows, nil))
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
		if got := nextDelay(time.Second, c.took); got != c.want {
			t.Errorf("after %s it rests for %s, want %s", c.took, got, c.want)
		}
	}
}
