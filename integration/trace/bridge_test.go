package trace

import (
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/nft/kernel/trace"
)

// A bridge that calls the hooks of IP forwards packets between its ports, and passes others to
// the node's routing with another ID. Without these calls, routing sees all packets, and
// replies of another pod on the bridge miss the translation.
func TestBridgePacketsAreFollowed(t *testing.T) {
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
					p, _ := ended(t, s.pathOf(w, tc.port, outcome), tc.want)
					if p.Out != tc.out {
						t.Errorf("%s, port %d: left by %q, want %q", w, tc.port, p.Out, tc.out)
					}
					if tc.port == ownPort && p.Packet.From != s.Node.Gateway(w.Family) {
						t.Errorf("%s to itself: left as %s", w, p.Packet)
					}
				}
			}
		})
	}
}

// A bridge that does not know the port of an address, or is in promiscuous mode, forwards
// copies, which have other IDs.
func TestBridgeCopiesAreFollowed(t *testing.T) {
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
				ended(t, s.path(tracer), trace.EndingSent)
				s.must(tracer.Close())
			}
		})
	}
}

// No hook sees what the bridge itself drops, so the trace reports that it is not certain
// whether the packet was lost.
func TestBridgeDropsAreNotReportedAsLost(t *testing.T) {
	s := newSceneIn(t, bridge)
	s.run("bridge", "link", "set", "dev", s.Pods[2].Link, "hairpin", "off")
	for w, path := range s.pathsOf(ownPort, lab.TimedOut) {
		if p, _ := ended(t, path, trace.EndingNotSeenAgain); p.Chain.Hook != "prerouting" || path.Refusal != "" {
			t.Errorf("%s: last seen in %+v; routing says %q", w, p.Chain, path.Refusal)
		}
	}
}

func TestMissingNeighbourIsReported(t *testing.T) {
	s := newSceneIn(t, bridge)
	for _, pod := range s.Pods[:2] {
		s.must(pod.Close())
	}
	// The kernel may remove the entry of a neighbour that did not answer at any time.
	forget := func() { s.run("ip", "neigh", "flush", "dev", lab.BridgeName) }
	for _, event := range []func(){func() {}, forget} {
		for w, path := range s.pathsOfWith(servicePort, lab.TimedOut, event) {
			if ended(t, path, trace.EndingLostAfterHook); !strings.HasPrefix(path.Refusal, "no neighbour on "+lab.BridgeName+" answers for ") {
				t.Errorf("%s: routing says %q", w, path.Refusal)
			}
		}
	}
}

// The packet waits on the bridge until the neighbour of its new destination is known.
func TestPacketWaitingForNeighbourIsFollowed(t *testing.T) {
	s := newSceneIn(t, bridge)
	for _, w := range daemon.Transports() {
		for _, pod := range s.Pods[:2] {
			s.run("ip", "neigh", "flush", "to", pod.Addr(w.Family).String())
		}
		ended(t, s.pathOf(w, servicePort, lab.Answered), trace.EndingSent)
	}
}

func TestDropInBridgeTableIsNamed(t *testing.T) {
	s := newSceneIn(t, bridge)
	s.nft(`table bridge firewall { chain forward { type filter hook forward priority -200; accept; }; chain input {
		type filter hook input priority 0; meta l4proto { tcp, udp, sctp } drop comment "not to the node"; }; }`)
	for _, w := range daemon.Transports() {
		ended(t, s.pathOf(w, servicePort, lab.Answered), trace.EndingSent)
		p, step := ended(t, s.pathOf(w, remotePort, lab.TimedOut), trace.EndingDropped)
		if p.Chain.Table.String() != "bridge firewall" || step.Rule.Comment != "not to the node" {
			t.Errorf("%s: dropped in %+v", w, p.Chain)
		}
	}
}
