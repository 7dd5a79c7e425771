package trace

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/trace"
)

// walkOf follows one packet of the client that is not answered.
func (s *scene) walkOf(w way, port uint16, want lab.Outcome) *trace.Walk {
	s.t.Helper()
	tracer := s.open(trace.Config{Packet: s.packet(w, port)})
	if a := s.ask(s.client, w, port); a.Outcome != want {
		s.t.Fatalf("%s: %s, want %s", w, a, want)
	}
	walk := s.walk(tracer)
	s.must(tracer.Close())
	return walk
}

func TestADropInAnotherTableIsNamed(t *testing.T) {
	s := newScene(t)
	s.nft(`table inet firewall { chain forward { type filter hook forward priority 10; policy accept; jump pods; }; chain pods {
		th dport 8080 counter drop comment "no web for pods"; }; }`)
	for _, w := range ways() {
		walk := s.walkOf(w, servicePort, lab.TimedOut)
		p, step := ended(t, walk, trace.Dropped)
		c := p.Chain
		if c.FamilyName() != "inet" || c.Table != "firewall" || c.Name != "forward" || c.Hook != "forward" || c.Priority != 10 {
			t.Errorf("%s: dropped in %+v", w, c)
		}
		if step.Chain != "pods" || step.Rule.Comment != "no web for pods" || step.Rule.Text != "th dport 8080 counter drop" {
			t.Errorf("%s: dropped by %+v", w, step)
		}
		if p.Packet.To.Port() != targetPort {
			t.Errorf("%s: dropped as %s, before it was translated?", w, p.Packet)
		}
		if !strings.Contains(s.nft("list chain inet firewall pods"), fmt.Sprintf("# handle %d", step.Rule.Handle)) {
			t.Errorf("%s: no rule with handle %d", w, step.Rule.Handle)
		}
	}
}

func TestADropByPolicyIsNamed(t *testing.T) {
	s := newScene(t)
	s.nft("table inet firewall { chain forward { type filter hook forward priority -5; policy drop; ip protocol icmp accept; }; }")
	for _, w := range ways() {
		p, _ := ended(t, s.walkOf(w, servicePort, lab.TimedOut), trace.DroppedByPolicy)
		if p.Chain.Table != "firewall" || !p.Chain.Drops {
			t.Errorf("%s: dropped in %+v", w, p.Chain)
		}
	}
}

func TestADropOfIptablesIsNamed(t *testing.T) {
	s := newScene(t)
	for _, command := range []string{"iptables-nft", "ip6tables-nft"} {
		s.iptables(command, "-A", "FORWARD", "-m", "comment", "--comment", "not today", "-j", "DROP")
	}
	for _, w := range ways() {
		p, step := ended(t, s.walkOf(w, servicePort, lab.TimedOut), trace.Dropped)
		if p.Chain.Table != "filter" || p.Chain.Name != "FORWARD" || step.Rule.Comment != "not today" {
			t.Errorf("%s: dropped in %+v by %+v", w, p.Chain, step)
		}
	}
}

// What no table of nf_tables does is not told of, but that it was done is, and
// between which two places.
func TestADropOutsideOfNfTablesIsPlaced(t *testing.T) {
	s := newScene(t)
	for _, command := range []string{"iptables-legacy", "ip6tables-legacy"} {
		s.iptables(command, "-A", "FORWARD", "-j", "DROP")
	}
	for _, w := range ways() {
		walk := s.walkOf(w, servicePort, lab.TimedOut)
		if p, _ := ended(t, walk, trace.LostInHook); p.Chain.Hook != "forward" {
			t.Errorf("%s: lost in %+v", w, p.Chain)
		}
	}
}

func TestAPacketWithoutARouteIsLostBehindItsHook(t *testing.T) {
	s := newScene(t)
	for _, pod := range s.Pods[:2] {
		for _, w := range ways() {
			family := map[string]string{"ip": "-4", "ip6": "-6"}[nft.FamilyName(w.family)]
			target := netip.PrefixFrom(pod.Addr(w.family), pod.Addr(w.family).BitLen()).String()
			out, err := s.Node.Command(t.Context(), "ip", family, "rule", "add", "to", target, "priority", "1", "blackhole").CombinedOutput()
			if err != nil && !strings.Contains(string(out), "exists") {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	for _, w := range ways() {
		tracer := s.open(trace.Config{Packet: s.packet(w, servicePort)})
		s.ask(s.client, w, servicePort)
		if p, _ := ended(t, s.walk(tracer), trace.LostBehindHook); p.Chain.Hook != "prerouting" {
			t.Errorf("%s: lost behind %+v", w, p.Chain)
		}
		s.must(tracer.Close())
	}
}

func TestARefusalOfOursIsNamed(t *testing.T) {
	s := newScene(t)
	for _, w := range ways() {
		p, step := ended(t, s.walkOf(w, emptyPort, lab.Refused), trace.Rejected)
		if p.Chain.Table != nft.TableName || step.Chain != "reject-chain" || !strings.Contains(step.Rule.Text, "reject") {
			t.Errorf("%s: refused in %+v by %+v", w, p.Chain, step)
		}
	}
}

// iptables runs one of its programs on the node, or skips the test if the kernel has
// no part for it.
func (s *scene) iptables(command string, args ...string) {
	s.t.Helper()
	out, err := s.Node.Command(s.t.Context(), command, append([]string{"-w"}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Skipf("%s: %v: %s", command, err, out)
	}
}
