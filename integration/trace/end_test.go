package trace

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/trace"
)

// pathOf follows one packet of the client, with this outcome.
func (s *scene) pathOf(w daemon.Transport, port uint16, want lab.Outcome) *trace.Path {
	s.t.Helper()
	tracer := s.open(trace.Config{Packet: s.packet(w, port)})
	s.expect(s.client, w, port, want)
	path := s.path(tracer)
	s.must(tracer.Close())
	return path
}

func TestDropInForeignTableIsNamed(t *testing.T) {
	inEachLab(t, func(s *scene) {
		s.nft(`table inet firewall { chain forward { type filter hook forward priority 10; policy accept; jump pods; }; chain pods {
			th dport 8080 counter drop comment "no web for pods"; }; }`)
		for w, path := range s.pathsOf(servicePort, lab.TimedOut) {
			p, step := ended(s.t, path, trace.EndingDropped)
			c := p.Chain
			if c.Table.String() != "inet firewall" || c.Name != "forward" || c.Hook != "forward" || c.Priority != 10 {
				s.t.Errorf("%s: dropped in %+v", w, c)
			}
			if step.Chain != "pods" || step.Rule.Comment != "no web for pods" || step.Rule.Text != "th dport 8080 counter drop" {
				s.t.Errorf("%s: dropped by %+v", w, step)
			}
			if p.Packet.To.Port() != targetPort {
				s.t.Errorf("%s: dropped as %s, before it was translated?", w, p.Packet)
			}
			if !strings.Contains(s.nft("list chain inet firewall pods"), fmt.Sprintf("# handle %d", step.Rule.Handle)) {
				s.t.Errorf("%s: no rule with handle %d", w, step.Rule.Handle)
			}
		}
	})
}

func TestDropByPolicyIsNamed(t *testing.T) {
	inEachLab(t, func(s *scene) {
		s.nft("table inet firewall { chain forward { type filter hook forward priority -5; policy drop; ip protocol icmp accept; }; }")
		for w, path := range s.pathsOf(servicePort, lab.TimedOut) {
			p, _ := ended(s.t, path, trace.EndingPolicyDrop)
			if p.Chain.Table.Name != "firewall" || !p.Chain.Drop {
				s.t.Errorf("%s: dropped in %+v", w, p.Chain)
			}
		}
	})
}

// iptables-nft has the comment in a match.
func TestDropByIptablesNftIsNamed(t *testing.T) {
	inEachLab(t, func(s *scene) {
		for _, command := range []string{"iptables-nft", "ip6tables-nft"} {
			s.iptables(command, "-A", "FORWARD", "-m", "comment", "--comment", "not today", "-j", "DROP")
		}
		for w, path := range s.pathsOf(servicePort, lab.TimedOut) {
			p, step := ended(s.t, path, trace.EndingDropped)
			if p.Chain.Table.Name != "filter" || p.Chain.Name != "FORWARD" || step.Rule.Comment != "not today" {
				s.t.Errorf("%s: dropped in %+v by %+v", w, p.Chain, step)
			}
		}
	})
}

// What drops the packet outside of nf_tables is not seen, but between which two points it was
// lost is.
func TestDropOutsideNftablesIsLocated(t *testing.T) {
	inEachLab(t, func(s *scene) {
		for _, command := range []string{"iptables-legacy", "ip6tables-legacy"} {
			s.iptables(command, "-A", "FORWARD", "-j", "DROP")
		}
		for w, path := range s.pathsOf(servicePort, lab.TimedOut) {
			if p, _ := ended(s.t, path, trace.EndingLostInHook); p.Chain.Hook != "forward" {
				s.t.Errorf("%s: lost in %+v", w, p.Chain)
			}
		}
	})
}

func TestPacketWithoutRouteIsLostAfterPrerouting(t *testing.T) {
	inEachLab(t, func(s *scene) {
		for _, pod := range s.Pods[:2] {
			for _, f := range model.Families {
				family := map[model.Family]string{model.IPv4: "-4", model.IPv6: "-6"}[f]
				s.run("ip", family, "rule", "add", "to", pod.Addr(f).String(), "priority", "1", "blackhole")
			}
		}
		for w, path := range s.pathsOf(servicePort, lab.TimedOut) {
			if p, _ := ended(s.t, path, trace.EndingLostAfterHook); p.Chain.Hook != "prerouting" || !strings.Contains(path.Refusal, "no route") {
				s.t.Errorf("%s: lost behind %+v: %s", w, p.Chain, path.Refusal)
			}
		}
	})
}

// pathsOf follows one packet of each transport to a port, with this outcome, all at the same time.
func (s *scene) pathsOf(port uint16, want lab.Outcome) map[daemon.Transport]*trace.Path {
	s.t.Helper()
	return s.pathsOfWith(port, want, func() {})
}

// pathsOfWith is pathsOf with an event after the packets, before their paths are complete.
func (s *scene) pathsOfWith(port uint16, want lab.Outcome, event func()) map[daemon.Transport]*trace.Path {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	tracers := make([]*trace.Tracer, len(daemon.Transports()))
	var questions errgroup.Group
	for i, w := range daemon.Transports() {
		p := s.packet(w, port)
		tracers[i] = s.open(trace.Config{Packet: p})
		questions.Go(func() error {
			a, err := s.client.Ask(w.Protocol, p.To, patience(want))
			if err == nil && a.Outcome != want {
				err = fmt.Errorf("%s to port %d: %s, want %s", w, port, a, want)
			}
			return err
		})
	}
	s.must(questions.Wait())
	event()
	paths := make([]*trace.Path, len(tracers))
	var group errgroup.Group
	for i, tracer := range tracers {
		group.Go(func() (err error) {
			paths[i], err = tracer.NextPath(ctx)
			return err
		})
	}
	s.must(group.Wait())
	all := map[daemon.Transport]*trace.Path{}
	for i, w := range daemon.Transports() {
		all[w] = paths[i]
	}
	return all
}

func TestOwnRejectIsNamed(t *testing.T) {
	inEachLab(t, func(s *scene) {
		for w, path := range s.pathsOf(emptyPort, lab.Refused) {
			p, step := ended(s.t, path, trace.EndingRejected)
			if p.Chain.Table.Name != nft.TableName || step.Chain != "reject-chain" || !strings.Contains(step.Rule.Text, "reject") {
				s.t.Errorf("%s: refused in %+v by %+v", w, p.Chain, step)
			}
		}
	})
}

// iptables runs a program of iptables on the node, or skips the test if the kernel does not
// support it.
func (s *scene) iptables(command string, args ...string) {
	s.t.Helper()
	out, err := s.Node.Command(s.t.Context(), command, append([]string{"-w"}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Skipf("%s: %v: %s", command, err, out)
	}
}
