package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	command "kube-vmap/cmd/inspect/explain"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/simulator"
	"kube-vmap/nft/simulate"
)

// TestIngressChainsOfOtherInterfacesAreSkipped drops everything that comes in by an interface: that of
// the packet, or that of another pod.
func TestIngressChainsOfOtherInterfacesAreSkipped(t *testing.T) {
	r, web := newServing(t, 1)
	p := r.packet(daemon.Transports()[0], web)
	in := r.explain(p).In
	other := r.explain(simulate.Packet{From: r.Pods[2].Addr(p.Family()), To: p.To, Protocol: p.Protocol}).In
	if in == "" || other == "" || in == other {
		t.Fatalf("packets come in by %q and %q", in, other)
	}
	for devices, want := range map[string]simulate.Verdict{
		"device " + other: simulate.VerdictDelivered,
		"device " + in:    simulate.VerdictDropped,
		fmt.Sprintf("devices = { %s, %s }", other, in):   simulate.VerdictDropped,
		fmt.Sprintf("devices = { %s, %s }", other, "lo"): simulate.VerdictDelivered,
	} {
		for _, family := range []string{"netdev", "inet"} {
			r.nft(fmt.Sprintf("table %s guard { chain ingress { type filter hook ingress %s priority 0; policy drop; }; }", family, devices))
			for _, w := range transports() {
				p := r.packet(w, web)
				o := single(t, r.explain(p))
				if o.Verdict != want || want == simulate.VerdictDropped && o.By.Table != family+" guard" {
					t.Errorf("%s, %s, %s: %s by %+v, want %s", family, devices, p, o.Verdict, o.By, want)
				}
				if got := r.reaches(w, web, want); got != (want == simulate.VerdictDelivered) {
					t.Errorf("%s, %s, %s: answered is %t, want it %s", family, devices, p, got, want)
				}
			}
			r.nft(fmt.Sprintf("delete table %s guard", family))
		}
	}
}

// reaches reports whether a packet is answered. It waits as long as the expected verdict needs.
// Hosts whose packets were dropped for seconds have lost each other's neighbour entries, so
// the packet is sent again.
func (r *rig) reaches(w daemon.Transport, s daemon.Service, want simulate.Verdict) bool {
	r.t.Helper()
	wait, times := silence, 1
	if want == simulate.VerdictDelivered {
		wait, times = answer, 3
	}
	for range times {
		p := r.packet(w, s)
		got, err := r.Pods[3].AskFrom(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To, wait)
		r.must(err)
		if got.Outcome == lab.Answered {
			return true
		}
	}
	return false
}

// picking returns rules that pick at random, and then do something.
func picking(what string) string {
	return strings.Repeat("numgen random mod 97 < 1 "+what+"; numgen random mod 97 == 1 "+what+"; ", 4)
}

// TestForeignPicksAreBounded has more picks than could all be explored.
func TestForeignPicksAreBounded(t *testing.T) {
	r, web := newServing(t, 5)
	for _, tc := range []struct {
		what   string
		others bool
		code   int
		want   string
	}{
		{picking("log"), false, 0, "goes to one of 5 endpoints"},
		{picking("counter log prefix x"), false, 0, "goes to one of 5 endpoints"},
		{strings.Repeat("meta mark set numgen random mod 97; ", 8), true, 2, "Rules of other programs choose, too"},
	} {
		r.nft("table inet picking { chain forward { type filter hook forward priority 10; " + tc.what + " }; }")
		for _, w := range transports() {
			p := r.packet(w, web)
			got := r.explain(p)
			all := got.Unexplored.Probability
			for _, o := range got.Outcomes {
				all += o.Probability
			}
			if got.Unexplored.OthersPick != tc.others || !tc.others && len(got.Doubts) > 0 || all < 0.999 || all > 1.001 {
				t.Errorf("%s, %s: not explored %+v, doubts %q, sum %v", tc.what, p, got.Unexplored, got.Doubts, all)
			}
			r.expect(tc.code, []string{tc.want}, "--from="+p.From.String(), to(p.To, p.Protocol))
		}
		r.nft("delete table inet picking")
	}
}

func TestExplainEndsWhenCanceled(t *testing.T) {
	r, web := newServing(t, 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sim, err := simulator.Open(simulator.Config{NetNS: r.Node.FD(), Interrupted: ctx.Err})
	r.must(err)
	defer func() { r.must(sim.Close()) }()
	for _, w := range transports() {
		p := r.packet(w, web)
		if _, err := sim.Run(p, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", p, err, context.Canceled)
		}
		o := command.Options{From: p.From.String(), To: fmt.Sprintf("%s/%s", p.To, p.Protocol)}
		ask := func(context.Context, nodestatus.Query) (*nodestatus.Document, error) {
			return nil, client.ErrNotRunning
		}
		run := func() error { _, err := command.Run(ctx, o, ask, io.Discard); return err }
		if err := r.Node.Do(run); !errors.Is(err, context.Canceled) {
			t.Errorf("the command, %s: %v, want %v", p, err, context.Canceled)
		}
	}
}

// TestSourcesTranslatedByOtherPrograms has another program's rule that changes the client's
// address to one of the node, or to one that no host has.
func TestSourcesTranslatedByOtherPrograms(t *testing.T) {
	r, web := newServing(t, 1)
	for _, virtual := range []bool{false, true} {
		for _, w := range transports() {
			source := r.Node.Addr(w.Family)
			text := "this node is seen as the client"
			if virtual {
				source = daemon.ClientAddr(w.Family, 250)
				text = source.String() + " is seen as the client"
			}
			r.nft(fmt.Sprintf("table %s egress { chain post { type nat hook postrouting priority 90; ct status dnat snat to %s; }; }", nft.FamilyName(w.Family), source))
			p := r.packet(w, web)
			o := single(t, r.explain(p))
			e := o.Endpoints[0]
			if e.Source != source || o.Masquerade == virtual || !e.Reply.ReachesClient(p) {
				t.Errorf("%s: %+v", p, o)
			}
			r.expect(0, []string{text + " (table " + nft.FamilyName(w.Family) + " egress, chain post", ", which answers " + p.From.String() + "; the client gets the reply"},
				"--from="+p.From.String(), to(p.To, p.Protocol))
			got, err := r.Pods[3].AskFrom(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To, answer)
			if err != nil || got.Outcome != lab.Answered || got.Seen.Addr() != source {
				t.Errorf("%s: %s, %v, want it seen from %s", p, got, err, source)
			}
			r.nft("delete table " + nft.FamilyName(w.Family) + " egress")
		}
	}
}
