package proxy

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// debugging makes the log tell also when there is nothing to do.
const debugging = "-v=4"

// nothingToDo waits for a start that found everything as it should be.
func (d *daemon) nothingToDo() {
	d.t.Helper()
	d.logged(0, "nothing to change", func(entry) bool { return true })
}

func TestRulesStayWhenTheProxyEnds(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	s := service{name: "web", address: 1, endpoints: "pod-1"}
	f.put("web.yaml", s)
	for _, end := range []struct {
		says string
		do   func(*daemon)
	}{
		{"by SIGTERM", (*daemon).stop},
		{"by SIGKILL", (*daemon).kill},
	} {
		t.Run(end.says, func(t *testing.T) {
			d := start(t, l.Node, f.dir, podRanges)
			w.settles(f.dir, podRanges)
			before := w.read()
			end.do(d)
			w.unchanged(before)
			only(t, l, s, "pod-1")
		})
	}
}

// TestRestartWithoutChangesWritesNothing has a history behind it, so that the
// endpoints are not in the slots that a first start would give them.
func TestRestartWithoutChangesWritesNothing(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	f.write("cluster.yaml", text(t, cluster()...))
	d := start(t, l.Node, f.dir, podRanges)
	for _, endpoints := range []string{"remote-1", "remote-1 pod-2", "pod-1 pod-2 remote-1", "pod-1 remote-1"} {
		f.put("web.yaml", service{name: "web", address: 1, endpoints: endpoints}, service{name: "none", address: 2})
		w.settles(f.dir, podRanges)
	}
	for _, end := range []func(*daemon){(*daemon).stop, (*daemon).kill} {
		generation, before := w.generation(), w.read()
		end(d)
		d = start(t, l.Node, f.dir, podRanges, debugging)
		d.nothingToDo()
		d.stop()
		if now := w.generation(); now != generation {
			t.Errorf("generation %d became %d: something was written", generation, now)
		}
		w.unchanged(before)
		d = start(t, l.Node, f.dir, podRanges, debugging)
		d.nothingToDo()
	}
}

func TestRestartSendsOnlyWhatChangedMeanwhile(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	var services []service
	for i := range 20 {
		services = append(services, service{name: fmt.Sprintf("web-%d", i), address: i + 1, endpoints: "pod-1 pod-2"})
	}
	f.put("web.yaml", services...)
	d := start(t, l.Node, f.dir, podRanges)
	w.settles(f.dir, podRanges)
	d.stop()

	services[3].endpoints = "pod-1 remote-1"
	f.put("web.yaml", services...)
	d = start(t, l.Node, f.dir, podRanges)
	w.settles(f.dir, podRanges)
	e := d.logged(0, "applied", func(entry) bool { return true })
	// In each way one endpoint takes another's slot, and pod-2 is still needed by
	// other Services as one that may reach itself.
	want := len(ways())
	if e.number("added") != want || e.number("deleted") != want || e.number("objects") != 0 {
		t.Errorf("sent %v, want %d elements replaced and nothing else", e, want)
	}
	only(t, l, services[4], "pod-1 pod-2")
}

// TestEditsBySomebodyElseAreRepaired lets another program edit the tables while
// the proxy is not there to see it.
func TestEditsBySomebodyElseAreRepaired(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	s := service{name: "web", address: 1, endpoints: "pod-1 pod-2"}
	f.write("cluster.yaml", text(t, cluster()...))
	f.put("web.yaml", s, service{name: "none", address: 2})
	start(t, l.Node, f.dir, podRanges).settled(w, f.dir).stop()
	whole := w.read()
	for _, edit := range []string{
		"flush chain ip kube-vmap nat-prerouting",
		"insert rule ip6 kube-vmap filter-forward drop",
		"add rule ip kube-vmap ep-0 accept",
		"add chain ip kube-vmap intruder",
		"add set ip6 kube-vmap intruder { type ipv6_addr; }",
		"flush map ip kube-vmap endpoints-0",
		"delete element ip6 kube-vmap services { fd00:10:96::1 . tcp . 80 }",
		"add element ip kube-vmap services { 10.96.0.9 . tcp . 80 : goto ep-0 }",
		"add element ip kube-vmap endpoints-1 { 10.96.0.9 . tcp . 80 : 10.244.1.3 . 8080 }",
		"add element ip kube-vmap hairpin { 10.244.1.9 . 10.244.1.9 }",
		"flush set ip kube-vmap cluster-ips",
		"add element ip kube-vmap service-cidrs { 203.0.113.0/24 }",
		"flush map ip6 kube-vmap no-endpoint-services",
		"delete table ip6 kube-vmap",
		"flush ruleset",
	} {
		t.Run(edit, func(t *testing.T) {
			runNFT(t, l.Node.Host, edit)
			if cmp.Equal(whole, w.read(), addresses) {
				t.Fatal("the edit made no difference")
			}
			d := start(t, l.Node, f.dir, podRanges)
			d.settled(w, f.dir)
			d.stop()
			only(t, l, s, "pod-1 pod-2")
		})
	}
}

// TestRulesFlushedUnderTheProxyComeBackWithTheNextChange shows that the proxy
// does not go on from a state that is no more.
func TestRulesFlushedUnderTheProxyComeBackWithTheNextChange(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	web := service{name: "web", address: 1, endpoints: "pod-1"}
	other := service{name: "other", address: 2, endpoints: "pod-1"}
	f.put("web.yaml", web)
	f.put("other.yaml", other)
	d := start(t, l.Node, f.dir, podRanges).settled(w, f.dir)
	for _, endpoints := range []string{"pod-2", "pod-1 pod-2", "pod-1"} {
		before := d.lines()
		runNFT(t, l.Node.Host, "flush ruleset")
		other.endpoints = endpoints
		f.put("other.yaml", other)
		d.settled(w, f.dir)
		only(t, l, web, "pod-1")
		only(t, l, other, endpoints)
		if blamed, _ := d.log.find(before, "Service port is left out"); len(blamed) > 0 {
			t.Errorf("a Service was blamed: %v", blamed)
		}
	}
}

// settled waits until the kernel holds what the folder says.
func (d *daemon) settled(w *watcher, dir string) *daemon {
	d.t.Helper()
	w.settles(dir, podRanges)
	return d
}
