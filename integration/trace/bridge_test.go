package trace

import (
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/nft/foreign/trace"
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
				for w, path := range s.pathsOf(tc.port, outcome, nil) {
					p, _ := ended(t, path, tc.want)
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
