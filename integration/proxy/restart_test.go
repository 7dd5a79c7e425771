package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	settings "kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/integration/eventually"
	"kube-vmap/model"
	"kube-vmap/nft"
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

// unprotected is the flag by which other programs may change the tables.
const unprotected = "--protect-tables=false"

// TestRestartOfProtectedTablesOnlyTakesPossession shows all that a restart writes
// where tables belong to a process: whose they are.
func TestRestartOfProtectedTablesOnlyTakesPossession(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	s := service{name: "web", address: 1, endpoints: "pod-1 pod-2"}
	f.put("web.yaml", s)
	d := start(t, l.Node, f.dir, podRanges).settled(w, f.dir)
	if e := d.logged(0, "starting", func(entry) bool { return true }); e["protected"] != true {
		t.Skip("this kernel does not let tables belong to a process (Linux 6.9)")
	}
	for _, end := range []func(*daemon){(*daemon).stop, (*daemon).kill} {
		generation, before := w.generation(), w.read()
		end(d)
		d = start(t, l.Node, f.dir, podRanges)
		e := d.logged(0, "applied", func(entry) bool { return true })
		if e.number("added") != 0 || e.number("deleted") != 0 || e.number("objects") != len(model.Families) {
			t.Errorf("a restart sent %v", e)
		}
		if now := w.generation(); now != generation+1 {
			t.Errorf("generation %d became %d, not the next one", generation, now)
		}
		w.unchanged(before)
		only(t, l, s, "pod-1 pod-2")
	}
	out, err := l.Node.Command(t.Context(), program(t), "cleanup").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "belongs to another program") {
		t.Errorf("cleanup beside the proxy: %v: %s", err, out)
	}
	runNFT(t, l.Node.Host, "flush ruleset")
	w.settles(f.dir, podRanges)
	only(t, l, s, "pod-1 pod-2")
}

// TestRestartWithoutChangesWritesNothing has a history behind it, so that the
// endpoints are not in the slots that a first start would give them.
func TestRestartWithoutChangesWritesNothing(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	f.write("cluster.yaml", text(t, cluster()...))
	d := start(t, l.Node, f.dir, podRanges, unprotected)
	for _, endpoints := range []string{"remote-1", "remote-1 pod-2", "pod-1 pod-2 remote-1", "pod-1 remote-1"} {
		f.put("web.yaml", service{name: "web", address: 1, endpoints: endpoints}, service{name: "none", address: 2})
		w.settles(f.dir, podRanges)
	}
	for _, end := range []func(*daemon){(*daemon).stop, (*daemon).kill} {
		generation, before := w.generation(), w.read()
		end(d)
		d = start(t, l.Node, f.dir, podRanges, unprotected, debugging)
		d.nothingToDo()
		d.stop()
		if now := w.generation(); now != generation {
			t.Errorf("generation %d became %d: something was written", generation, now)
		}
		w.unchanged(before)
		d = start(t, l.Node, f.dir, podRanges, unprotected, debugging)
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
	d := start(t, l.Node, f.dir, podRanges, unprotected)
	w.settles(f.dir, podRanges)
	d.stop()

	services[3].endpoints = "pod-1 remote-1"
	f.put("web.yaml", services...)
	d = start(t, l.Node, f.dir, podRanges, unprotected)
	w.settles(f.dir, podRanges)
	e := d.logged(0, "applied", func(entry) bool { return true })
	// In each way one endpoint takes another's slot, and pod-2 is still needed by
	// other Services as one that may reach itself.
	want, more := len(ways()), 0
	if settings.DistrustsOldData() {
		more = len(model.Families) // the address of the new endpoint, whose invalid packets are dropped
	}
	if e.number("added") != want+more || e.number("deleted") != want || e.number("objects") != 0 {
		t.Errorf("sent %v, want %d elements replaced, %d added and nothing else", e, want, more)
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

// TestWhatOthersDoUnderTheProxyIsUndone shows that edits are noticed without any
// change of ours, each repaired by no more than it takes.
func TestWhatOthersDoUnderTheProxyIsUndone(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	s := service{name: "web", address: 1, endpoints: "pod-1 pod-2"}
	f.write("cluster.yaml", text(t, cluster()...))
	f.put("web.yaml", s)
	d := start(t, l.Node, f.dir, podRanges, unprotected).settled(w, f.dir)
	for edit, objects := range map[string]int{
		"flush map ip kube-vmap endpoints-0": 0, "delete element ip6 kube-vmap services { fd00:10:96::1 . tcp . 80 }": 0,
		"flush chain ip kube-vmap nat-prerouting": -1, "delete table ip6 kube-vmap": -1, "flush ruleset": -1,
	} {
		from := d.lines()
		runNFT(t, l.Node.Host, edit)
		edited := time.Now()
		e := d.logged(from, "another program had changed our tables; repaired", func(entry) bool { return true })
		// Half a second until it is noticed, and as much for a busy machine.
		if took := time.Since(edited); took > 2*time.Second {
			t.Errorf("%s: undone after %s", edit, took)
		}
		d.settled(w, f.dir)
		if objects == 0 && (e.number("objects") != 0 || e.number("added") > 4) {
			t.Errorf("%s: it took %v", edit, e)
		}
		only(t, l, s, "pod-1 pod-2")
	}
	from, generation := d.lines(), w.generation()
	runNFT(t, l.Node.Host, "add table inet elsewhere; add chain inet elsewhere foreign")
	<-time.After(1200 * time.Millisecond)
	if now := w.generation(); now != generation+1 {
		t.Errorf("another program's own table made us write: generation %d became %d", generation, now)
	}
	if told, _ := d.log.find(from, "another program had changed our tables; repaired"); len(told) > 0 {
		t.Errorf("another program's own table counts as ours: %v", told)
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
	d := start(t, l.Node, f.dir, podRanges, unprotected).settled(w, f.dir)
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

// TestFlowsLedAstrayFindTheirServiceAgain has somebody lead a Service elsewhere: what
// UDP flows remember of that must not outlive it.
func TestFlowsLedAstrayFindTheirServiceAgain(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	s := service{name: "web", address: 1, endpoints: "pod-1"}
	f.write("cluster.yaml", text(t, cluster()...))
	f.put("web.yaml", s)
	start(t, l.Node, f.dir, podRanges, unprotected).settled(w, f.dir)
	for _, family := range model.Families {
		flow, err := l.Outside.Flow(model.UDP, freshPort(), s.at(family))
		if err != nil {
			t.Fatal(err)
		}
		element := nft.FamilyName(family) + " kube-vmap endpoints-0 { " + s.at(family).Addr().String() + " . udp . 80"
		runNFT(t, l.Node.Host, "delete element "+element+" };"+
			"add element "+element+" : "+l.Pods[1].Addr(family).String()+" . 8080 }")
		if a, err := flow.Ask(answer); err != nil || a.By != "pod-2" {
			t.Fatalf("%s: led astray, it is answered by %q, %v", family, a.By, err)
		}
		eventually.Succeeds(t, "an answer by the endpoint", func() error {
			a, err := flow.Ask(answer)
			if err == nil && a.By != "pod-1" {
				err = fmt.Errorf("%s by %s", a.Outcome, a.By)
			}
			return err
		})
	}
}
