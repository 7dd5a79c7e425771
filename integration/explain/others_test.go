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
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/nft/kernel/simulator"
	"kube-vmap/nft/simulate"
)

// TestIngressOfOtherInterfacesIsNotPassed has tables that drop all that comes by an
// interface: that of the packet, or that of a pod which has nothing to do with it.
func TestIngressOfOtherInterfacesIsNotPassed(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: r.servers[:1]}
	r.folder.Put("services", web)
	daemon.Start(t, r.Node, r.folder)
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
			for _, w := range daemon.Transports() {
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

// reaches reports whether a packet is answered, and waits as long as what is wanted
// takes. Hosts whose packets were dropped for seconds have lost each other's link
// addresses, and what waits for them may fail once more, so it is sent again.
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

// picking is a table of another program whose rules pick and do something then.
func picking(what string) string {
	rules := strings.Repeat("numgen random mod 97 < 1 "+what+"; numgen random mod 97 == 1 "+what+"; ", 4)
	return "table inet picking { chain forward { type filter hook forward priority 10; " + rules + " }; }"
}

// TestPicksOfOthersAreBounded has so many of them that to go all ways takes for ever.
func TestPicksOfOthersAreBounded(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: r.servers}
	r.folder.Put("services", web)
	daemon.Start(t, r.Node, r.folder)
	for _, tc := range []struct {
		what   string
		others bool
		code   int
		says   string
	}{
		{"log", false, 0, "goes to one of 5 endpoints"},
		{"counter log prefix x", false, 0, "goes to one of 5 endpoints"},
		{"counter drop", true, 1, "Rules of other programs choose, too"},
	} {
		r.nft(picking(tc.what))
		for _, w := range daemon.Transports() {
			p := r.packet(w, web)
			got := r.explain(p)
			all := got.Unexplored.Probability
			for _, o := range got.Outcomes {
				all += o.Probability
			}
			if got.Unexplored.OtherPrograms != tc.others || !tc.others && len(got.Doubts) > 0 || all < 0.999 || all > 1.001 {
				t.Errorf("%s, %s: not looked at %+v, doubts %q, all together %v", tc.what, p, got.Unexplored, got.Doubts, all)
			}
			r.expect(tc.code, []string{tc.says}, "--from="+p.From.String(), to(p.To, p.Protocol))
		}
		r.nft("delete table inet picking")
	}
}

func TestNobodyIsExplainedToWhoIsGone(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: r.servers}
	r.folder.Put("services", web)
	daemon.Start(t, r.Node, r.folder)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	walker, err := simulator.Open(simulator.Config{NetNS: r.Node.FD(), Interrupted: ctx.Err})
	r.must(err)
	defer func() { r.must(walker.Close()) }()
	for _, w := range daemon.Transports() {
		p := r.packet(w, web)
		if _, err := walker.Run(p, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", p, err, context.Canceled)
		}
		o := command.Options{From: p.From.String(), To: fmt.Sprintf("%s/%s", p.To, p.Protocol)}
		ask := func(context.Context, status.Query) (*status.Document, error) { return nil, status.ErrNotRunning }
		run := func() error { _, err := command.Run(ctx, o, ask, io.Discard); return err }
		if err := r.Node.Do(run); !errors.Is(err, context.Canceled) {
			t.Errorf("the command, %s: %v, want %v", p, err, context.Canceled)
		}
	}
}
