package trace

import (
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/nft/kernel/trace"
)

// A bridge that calls the hooks of IP forwards packets to its own ports, and hands all
// others to the node's routing, under another number. From one that does not, routing
// sees them all, and answers of another pod on the bridge miss the translation.
func TestAPacketFromABridgeIsFollowedToItsEnd(t *testing.T) {
	for _, calls := range []string{"1", "0"} {
		t.Run("bridge-nf-call="+calls, func(t *testing.T) {
			s := newSceneIn(t, bridge)
			s.run("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables="+calls, "net.bridge.bridge-nf-call-ip6tables="+calls)
			for _, tc := range []struct {
				port uint16
				want trace.Ending
				out  string
			}{
				{servicePort, trace.EndingSent, lab.BridgeName},
				{ownPort, trace.EndingSent, lab.BridgeName},
				{remotePort, trace.EndingSent, "eth0"},
				{nodePort, trace.EndingDelivered, ""},
			} {
				outcome := lab.Answered
				if calls == "0" && tc.port == servicePort {
					outcome = lab.TimedOut
				}
				for _, w := range daemon.Transports() {
					p, _ := ended(t, s.walkOf(w, tc.port, outcome), tc.want)
					if p.Out != tc.out {
						t.Errorf("%s, port %d: left by %q, want %q", w, tc.port, p.Out, tc.out)
					}
					if tc.port == ownPort && p.Packet.From.Addr() != s.Node.Gateway(w.Family) {
						t.Errorf("%s to itself: left as %s", w, p.Packet)
					}
				}
			}
		})
	}
}

// A bridge that does not know the port of an address, or is in promiscuous mode itself,
// forwards copies, which have other numbers.
func TestACopyThatABridgeForwardsIsFollowed(t *testing.T) {
	for _, promiscuous := range []string{"on", "off"} {
		t.Run("promiscuous="+promiscuous, func(t *testing.T) {
			s := newSceneIn(t, bridge)
			s.run("ip", "link", "set", lab.BridgeName, "promisc", promiscuous)
			for _, pod := range s.Pods[:2] {
				s.run("bridge", "link", "set", "dev", pod.Link, "learning", "off")
			}
			s.run("ip", "link", "set", lab.BridgeName, "type", "bridge", "fdb_flush")
			for _, w := range daemon.Transports() {
				tracer := s.open(trace.Config{Packet: s.packet(w, servicePort)})
				s.ask(s.client, w, servicePort)
				ended(t, s.walk(tracer), trace.EndingSent)
				s.must(tracer.Close())
			}
		})
	}
}

// What the bridge itself drops, no hook sees: so the trace does not say that it was
// lost, but that it is not certain.
func TestAPacketThatTheBridgeDropsIsNotCalledLost(t *testing.T) {
	s := newSceneIn(t, bridge)
	s.run("bridge", "link", "set", "dev", s.Pods[2].Link, "hairpin", "off")
	for w, walk := range s.walksOf(ownPort, lab.TimedOut) {
		if p, _ := ended(t, walk, trace.EndingNotSeenAgain); p.Chain.Hook != "prerouting" || walk.Refusal != "" {
			t.Errorf("%s: last seen in %+v; routing says %q", w, p.Chain, walk.Refusal)
		}
	}
}

func TestAPacketToAnEndpointThatIsGoneIsLostBehindTheBridge(t *testing.T) {
	s := newSceneIn(t, bridge)
	for _, pod := range s.Pods[:2] {
		s.must(pod.Close())
	}
	for w, walk := range s.walksOf(servicePort, lab.TimedOut) {
		if ended(t, walk, trace.EndingLostAfterHook); !strings.HasPrefix(walk.Refusal, "no neighbour on "+lab.BridgeName+" answers for ") {
			t.Errorf("%s: routing says %q", w, walk.Refusal)
		}
	}
}

// A packet waits on the bridge until the neighbour of its new destination is known.
func TestAPacketThatWaitsForANeighbourIsFollowed(t *testing.T) {
	s := newSceneIn(t, bridge)
	for _, w := range daemon.Transports() {
		for _, pod := range s.Pods[:2] {
			s.run("ip", "neigh", "flush", "to", pod.Addr(w.Family).String())
		}
		ended(t, s.walkOf(w, servicePort, lab.Answered), trace.EndingSent)
	}
}

func TestADropInABridgeTableIsNamed(t *testing.T) {
	s := newSceneIn(t, bridge)
	s.nft(`table bridge firewall { chain forward { type filter hook forward priority -200; accept; }; chain input {
		type filter hook input priority 0; meta l4proto { tcp, udp, sctp } drop comment "not to the node"; }; }`)
	for _, w := range daemon.Transports() {
		ended(t, s.walkOf(w, servicePort, lab.Answered), trace.EndingSent)
		p, step := ended(t, s.walkOf(w, remotePort, lab.TimedOut), trace.EndingDropped)
		if p.Chain.FamilyName() != "bridge" || p.Chain.Table != "firewall" || step.Rule.Comment != "not to the node" {
			t.Errorf("%s: dropped in %+v", w, p.Chain)
		}
	}
}

func TestPeopleAreShownWhereAPacketFromABridgeWent(t *testing.T) {
	s := newSceneIn(t, bridge)
	for _, w := range daemon.Transports() {
		text := s.follow(w, remotePort, lab.Answered)
		for _, want := range []string{", in by " + lab.BridgeName + ", opens", "\n  forward, to eth0\n", "SENT by eth0 as "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in\n%s", w, want, text)
			}
		}
	}
}
