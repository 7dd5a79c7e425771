package trace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	command "kube-vmap/cmd/inspect/explain"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/trace"
)

// An outcome is the result of a trace.
type outcome struct {
	arrival trace.Arrival
	err     error
}

// follow runs explain --trace for one packet, sends it, and returns the output. A packet has
// arrived if it is answered.
func (s *scene) follow(w daemon.Transport, port uint16, want lab.Outcome) string {
	s.t.Helper()
	var out process.Log
	done := make(chan outcome, 1)
	o := command.TraceOptions{NetNS: s.Node.FD(), Count: 1, Timeout: timeout}
	go func() {
		arrival, err := command.Follow(s.t.Context(), s.packet(w, port), o, &out)
		done <- outcome{arrival, err}
	}()
	s.waitReady(&out)
	s.expect(s.client, w, port, want)
	got := <-done
	s.must(got.err)
	if (got.arrival == trace.ArrivalYes) != (want == lab.Answered) || got.arrival == trace.ArrivalUnknown {
		s.t.Errorf("%s: %s, and the trace returns %d", w, want, got.arrival)
	}
	return out.String()
}

// waitReady waits until the trace is ready for packets.
func (s *scene) waitReady(out *process.Log) {
	s.t.Helper()
	eventually.Holds(s.t, "waiting for packets", func() bool { return strings.Contains(out.String(), "now send one") })
}

func TestCommandNamesTheDrop(t *testing.T) {
	s := newScene(t)
	s.nft(`table inet firewall { chain forward { type filter hook forward priority 10; th dport 8080 drop comment "no web for pods"; }; }`)
	for _, w := range daemon.Transports() {
		text := s.follow(w, servicePort, lab.TimedOut)
		fam := nft.FamilyName(w.Family)
		for _, want := range []string{
			"waiting for packets", fmt.Sprintf("-101  %s kube-vmap nat-prerouting\n", fam), "vmap @services  -> goto cluster-2\n",
			fmt.Sprintf("destination %s becomes ", s.packet(w, servicePort).To),
			"forward, to veth", "10  inet firewall forward\n",
			`DROPPED by table inet firewall, chain forward, rule `, `, comment "no web for pods"`,
			"the rule: th dport 8080 drop\n", "nft -a list chain inet firewall forward\n", "1 packet shown\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in\n%s", w, want, text)
			}
		}
		if strings.Contains(text, "kube-vmap-trace") {
			t.Errorf("%s: the output has the tracer's own chains:\n%s", w, text)
		}
		s.waitNoTables()
	}
}

func TestCommandWithoutPacketsIsAnError(t *testing.T) {
	s := newScene(t)
	for _, f := range model.Families {
		var out process.Log
		o := command.TraceOptions{NetNS: s.Node.FD(), Timeout: 50 * time.Millisecond}
		_, err := command.Follow(t.Context(), s.packet(daemon.Transport{Protocol: model.TCP, Family: f}, servicePort), o, &out)
		if !errors.Is(err, command.ErrNone) || !strings.Contains(err.Error(), "on another node") {
			t.Error(err)
		}
		s.waitNoTables()
	}
}

// Canceling is what a signal does.
func TestCanceledCommandRemovesItsTable(t *testing.T) {
	s := newScene(t)
	for _, w := range daemon.Transports() {
		ctx, cancel := context.WithCancel(t.Context())
		var out process.Log
		done := make(chan outcome, 1)
		go func() {
			arrival, err := command.Follow(ctx, s.packet(w, servicePort), command.TraceOptions{NetNS: s.Node.FD()}, &out)
			done <- outcome{arrival, err}
		}()
		s.waitReady(&out)
		if len(s.tables()) != 1 {
			t.Errorf("%s: tables %q", w, s.tables())
		}
		cancel()
		if got := <-done; got != (outcome{trace.ArrivalUnknown, nil}) || !strings.HasSuffix(out.String(), "0 packets shown\n") {
			t.Errorf("%s: %v after\n%s", w, got, &out)
		}
		if len(s.tables()) != 0 {
			t.Errorf("%s: tables %q stay", w, s.tables())
		}
	}
}
