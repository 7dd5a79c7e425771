package proxy

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// unprotected is the flag that lets other programs change the tables.
const unprotected = "--protect-tables=false"

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
		only(t, l, s, "pod-1", "pod-2")
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
	d := startAndSettle(t, w, l, f, daemon.PodRanges, unprotected)
	for _, family := range model.Families {
		flow, err := l.Outside.Flow(model.UDP, netip.AddrPortFrom(netip.Addr{}, l.Outside.FreshPort()), s.ClusterAddrPort(family))
		if err != nil {
			t.Fatal(err)
		}
		element := nft.FamilyName(family) + " kube-vmap endpoints-0 { " + s.ClusterAddrPort(family).Addr().String() + " . udp . 80"
		suspended(t, d, func() {
			runNFT(t, l.Node.Host, "delete element "+element+" };"+
				"add element "+element+" : "+l.Pods[1].Addr(family).String()+" . 8080 }")
			if a, err := flow.Ask(answer); err != nil || a.By != "pod-2" {
				t.Fatalf("%s: before the repair: %s, %v", family, a, err)
			}
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

// suspended calls fn while the process does not run.
func suspended(t *testing.T, d *daemon.Daemon, fn func()) {
	t.Helper()
	if err := d.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	fn()
}

// TestUDPFlowFollowsItsService has clients that keep their source port, as DNS proxies and log
// senders do, while the only endpoint of their Service is replaced, goes and comes back.
func TestUDPFlowFollowsItsService(t *testing.T) {
	l, f, w := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1"}
	f.Put("web", s)
	startAndSettle(t, w, l, f, daemon.PodRanges)
	var flows []*lab.Flow
	for _, family := range model.Families {
		for _, from := range everyone(l) {
			flow, err := from.Flow(model.UDP, netip.AddrPortFrom(netip.Addr{}, from.FreshPort()), s.ClusterAddrPort(family))
			if err != nil {
				t.Fatal(err)
			}
			flows = append(flows, flow)
		}
	}
	for _, endpoint := range []string{"pod-1", "pod-2", "", "pod-1"} {
		s.EndpointSpec = endpoint
		f.Put("web", s)
		want := lab.Answered
		if endpoint == "" {
			want = lab.Refused
		}
		for i, flow := range flows {
			eventually.Succeeds(t, "the flow goes where its Service does", func() error {
				a, err := flow.Ask(silence) // one that is on its way when its flow is deleted has no answer
				if err == nil && (a.Outcome != want || a.By != endpoint) {
					err = fmt.Errorf("flow %d: %s, want an answer by %q", i, a, endpoint)
				}
				return err
			})
		}
	}
}
