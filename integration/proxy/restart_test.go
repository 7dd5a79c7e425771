package proxy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	settings "kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// debugging also logs that there is nothing to change.
const debugging = "-v=4"

// unprotected is the flag that lets other programs change the tables.
const unprotected = "--protect-tables=false"

// TestRestartOfProtectedTablesOnlyWritesTheirOwner shows that a restart
// of a proxy that owns its tables only writes the new owner.
func TestRestartOfProtectedTablesOnlyWritesTheirOwner(t *testing.T) {
	l, f, w := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 pod-2"}
	f.Put("web", s)
	d := startAndSettle(t, w, l, f, daemon.PodRanges)
	if e := d.Logged(0, "starting", func(process.Entry) bool { return true }); e["protected"] != "true" {
		t.Skip("this kernel does not support table owners that persist (Linux 6.9)")
	}
	for _, end := range []func(*daemon.Daemon){(*daemon.Daemon).Stop, (*daemon.Daemon).Kill} {
		generation, before := w.generation(), w.read()
		end(d)
		d = start(t, l.Node, f, daemon.PodRanges)
		e := d.Logged(0, "applied", func(process.Entry) bool { return true })
		if e.Number("added") != 0 || e.Number("deleted") != 0 || e.Number("objects") != len(model.Families) {
			t.Errorf("a restart sent %v", e)
		}
		if now := w.generation(); now != generation+1 {
			t.Errorf("generation %d became %d, not the next one", generation, now)
		}
		w.unchanged(before)
		only(t, l, s, "pod-1 pod-2")
	}
	out, err := l.Node.Command(t.Context(), daemon.Program(t), "cleanup").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "belongs to another program") {
		t.Errorf("cleanup beside the proxy: %v: %s", err, out)
	}
	runNFT(t, l.Node.Host, "flush ruleset")
	w.settles(f, daemon.PodRanges)
	only(t, l, s, "pod-1 pod-2")
}

// TestRestartWithoutChangesWritesNothing makes changes first, so that the
// endpoints are not in the slots that a first start would give them.
func TestRestartWithoutChangesWritesNothing(t *testing.T) {
	l, f, w := newScene(t)
	writeCluster(f, l)
	d := start(t, l.Node, f, daemon.PodRanges, unprotected)
	for _, endpoints := range []string{"remote-1", "remote-1 pod-2", "pod-1 pod-2 remote-1", "pod-1 remote-1"} {
		f.Put("web", daemon.Service{Name: "web", Number: 1, EndpointSpec: endpoints}, daemon.Service{Name: "none", Number: 2})
		w.settles(f, daemon.PodRanges)
	}
	for _, end := range []func(*daemon.Daemon){(*daemon.Daemon).Stop, (*daemon.Daemon).Kill} {
		generation, before := w.generation(), w.read()
		end(d)
		d = start(t, l.Node, f, daemon.PodRanges, unprotected, debugging)
		d.AwaitMessage("nothing to change")
		d.Stop()
		if now := w.generation(); now != generation {
			t.Errorf("generation %d became %d: something was written", generation, now)
		}
		w.unchanged(before)
		d = start(t, l.Node, f, daemon.PodRanges, unprotected, debugging)
		d.AwaitMessage("nothing to change")
	}
}

func TestRestartSendsOnlyWhatChangedMeanwhile(t *testing.T) {
	l, f, w := newScene(t)
	var services []daemon.Service
	for i := range 20 {
		services = append(services, daemon.Service{Name: fmt.Sprintf("web-%d", i), Number: i + 1, EndpointSpec: "pod-1 pod-2"})
	}
	f.Put("web", services...)
	d := start(t, l.Node, f, daemon.PodRanges, unprotected)
	w.settles(f, daemon.PodRanges)
	d.Stop()

	services[3].EndpointSpec = "pod-1 remote-1"
	f.Put("web", services...)
	d = start(t, l.Node, f, daemon.PodRanges, unprotected)
	w.settles(f, daemon.PodRanges)
	e := d.Logged(0, "applied", func(process.Entry) bool { return true })
	// In each way one endpoint takes another's slot, and pod-2 is still needed by
	// other Services as one that may reach itself.
	want, more := len(daemon.Transports()), 0
	if settings.DistrustsOldData() {
		more = len(model.Families) // the address of the new endpoint, whose invalid packets are dropped
	}
	if e.Number("added") != want+more || e.Number("deleted") != want || e.Number("objects") != 0 {
		t.Errorf("sent %v, want %d elements replaced, %d added and nothing else", e, want, more)
	}
	only(t, l, services[4], "pod-1 pod-2")
}

// TestForeignEditsAreRepairedAtStart lets another program edit the tables while
// the proxy does not run.
func TestForeignEditsAreRepairedAtStart(t *testing.T) {
	l, f, w := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 pod-2"}
	writeCluster(f, l)
	f.Put("web", s, daemon.Service{Name: "none", Number: 2})
	startAndSettle(t, w, l, f, daemon.PodRanges).Stop()
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
			d := startAndSettle(t, w, l, f, daemon.PodRanges)
			d.Stop()
			only(t, l, s, "pod-1 pod-2")
		})
	}
}

// TestForeignEditsAreRepairedWhileRunning shows that edits are noticed without any
// change of manifests, and repaired by as few commands as possible.
func TestForeignEditsAreRepairedWhileRunning(t *testing.T) {
	l, f, w := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 pod-2"}
	writeCluster(f, l)
	f.Put("web", s)
	d := startAndSettle(t, w, l, f, daemon.PodRanges, unprotected)
	for edit, objects := range map[string]int{
		"flush map ip kube-vmap endpoints-0": 0, "delete element ip6 kube-vmap services { fd00:10:96::1 . tcp . 80 }": 0,
		"flush chain ip kube-vmap nat-prerouting": -1, "delete table ip6 kube-vmap": -1, "flush ruleset": -1,
	} {
		from := d.Log.Len()
		runNFT(t, l.Node.Host, edit)
		e := d.Logged(from, "repaired tables changed by another program", func(process.Entry) bool { return true })
		w.settles(f, daemon.PodRanges)
		if objects == 0 && (e.Number("objects") != 0 || e.Number("added") > 4) {
			t.Errorf("%s: the repair sent %v", edit, e)
		}
		only(t, l, s, "pod-1 pod-2")
	}
	from, generation := d.Log.Len(), w.generation()
	runNFT(t, l.Node.Host, "add table inet elsewhere; add chain inet elsewhere foreign")
	<-time.After(1200 * time.Millisecond)
	if now := w.generation(); now != generation+1 {
		t.Errorf("another program's own table caused a write: generation %d became %d", generation, now)
	}
	if repairs := d.Log.Find(from, "repaired tables changed by another program"); len(repairs) > 0 {
		t.Errorf("another program's own table counts as ours: %v", repairs)
	}
}

// TestUDPFlowsReturnToTheirServiceAfterRepair lets another program change the
// endpoint of a Service: connection tracking of UDP flows must not keep that endpoint.
func TestUDPFlowsReturnToTheirServiceAfterRepair(t *testing.T) {
	l, f, w := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1"}
	writeCluster(f, l)
	f.Put("web", s)
	startAndSettle(t, w, l, f, daemon.PodRanges, unprotected)
	for _, family := range model.Families {
		flow, err := l.Outside.Flow(model.UDP, netip.AddrPortFrom(netip.Addr{}, l.Outside.FreshPort()), s.ClusterAddrPort(family))
		if err != nil {
			t.Fatal(err)
		}
		element := nft.FamilyName(family) + " kube-vmap endpoints-0 { " + s.ClusterAddrPort(family).Addr().String() + " . udp . 80"
		eventually.Succeeds(t, "an answer after the change and before its repair", func() error {
			runNFT(t, l.Node.Host, "delete element "+element+" };"+
				"add element "+element+" : "+l.Pods[1].Addr(family).String()+" . 8080 }")
			a, err := flow.Ask(answer)
			if err == nil && a.By != "pod-2" {
				err = fmt.Errorf("%s: it is answered by %q", family, a.By)
			}
			return err
		})
		eventually.Succeeds(t, "an answer by the endpoint", func() error {
			a, err := flow.Ask(answer)
			if err == nil && a.By != "pod-1" {
				err = fmt.Errorf("%s by %s", a.Outcome, a.By)
			}
			return err
		})
	}
}
