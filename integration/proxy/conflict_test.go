package proxy

import (
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// only checks that in each way and for everyone, these hosts answer, and no
// others.
func only(t *testing.T, l *lab.Lab, s service, by string) {
	t.Helper()
	eachWay(t, func(t *testing.T, w way) {
		for _, from := range everyone(l) {
			answers(t, from, w, s.at(w.family), strings.Fields(by), nil)
		}
	})
}

// TestOlderServiceHoldsTheAddress takes two Services of one ClusterIP through
// all that could make the younger win.
func TestOlderServiceHoldsTheAddress(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	// By name and by file, the younger one comes first.
	older := service{name: "older", address: 1, endpoints: "pod-1", created: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
	younger := service{name: "a-younger", address: 1, endpoints: "pod-2", created: older.created.Add(time.Second)}
	lost := func(d *daemon, from int) {
		t.Helper()
		// One line for all ways to ask it.
		m := model.Match{Family: model.IPv4, Addr: clusterIP(model.IPv4, 1), Protocol: model.TCP, Port: port}
		d.logged(from, "another Service holds the address and port", func(e entry) bool {
			return e["match"] == m.String() && e["winner"] == "default/older:tcp" && e["loser"] == "default/a-younger:tcp" &&
				e.number("more") == len(ways())-1
		})
	}
	f.put("a.yaml", younger)
	d := start(t, l.Node, f.dir, podRanges)
	w.settles(f.dir, podRanges)
	only(t, l, younger, "pod-2")

	before := d.lines()
	f.put("b.yaml", older)
	w.settles(f.dir, podRanges)
	only(t, l, older, "pod-1")
	lost(d, before)

	younger.endpoints = "pod-2 remote-1" // it moves, and still has lost
	f.put("a.yaml", younger)
	w.settles(f.dir, podRanges)
	only(t, l, older, "pod-1")

	d.stop()
	d = start(t, l.Node, f.dir, podRanges)
	lost(d, 0)
	only(t, l, older, "pod-1")

	younger.endpoints = "pod-2"
	f.put("a.yaml", younger)
	f.remove("b.yaml")
	w.settles(f.dir, podRanges)
	only(t, l, younger, "pod-2")

	f.put("b.yaml", older)
	w.settles(f.dir, podRanges)
	only(t, l, older, "pod-1")
}

// TestLoserKeepsWhatIsItsOwn lets two Services share an address, but only one of
// their ports.
func TestLoserKeepsWhatIsItsOwn(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	one := service{name: "one", address: 1, endpoints: "pod-1"}
	two := service{name: "two", address: 1, endpoints: "pod-2", ports: everyProtocol()}
	for i := range two.ports {
		mine := two.ports[i]
		mine.name, mine.port = "own-"+mine.name, port+1
		two.ports = append(two.ports, mine)
	}
	f.put("services.yaml", two, one)
	start(t, l.Node, f.dir, podRanges)
	watch(t, l.Node.Host).settles(f.dir, podRanges)
	only(t, l, one, "pod-1") // neither says when it was made: the name decides
	eachWay(t, func(t *testing.T, w way) {
		for _, from := range everyone(l) {
			answers(t, from, w, at(w.family, 1, port+1), []string{"pod-2"}, nil)
		}
	})
}
