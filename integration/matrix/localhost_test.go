package matrix

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/model"
)

// localhostGate is enabled for kube-proxy, where it is disabled by default.
const localhostGate = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts="

// localhostSteps are values of the flag for one restart after another, where node ports
// are then served on localhost, over IPv4 and IPv6 (y or n), and whether they are at the
// primary addresses.
var localhostSteps = []struct {
	flag, gate string
	served     string
	primary    bool
}{
	{"primary", "true", "nn", true},
	{"primary,localhost", "true", "yy", true},
	{"all", "true", "nn", true},
	{"all,localhost", "true", "yy", true},
	{"primary,localhost", "false", "nn", true},
	{"localhost", "true", "yy", false},
	{"192.0.2.1/32,2001:db8:2::1/128,127.0.0.0/8", "true", "yn", true},
	{"primary,::1/128", "true", "ny", true},
}

// otherLoopback is a loopback address on which node ports never answer.
var otherLoopback = netip.MustParseAddr("127.0.0.2")

// TestNodePortsOnLocalhostFollowTheFlag restarts the proxy, whose rules remain, and asks
// from the node. Where and what is not served, nothing answers, other addresses in
// 127.0.0.0/8 included.
func TestNodePortsOnLocalhostFollowTheFlag(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	const (
		one = iota + 1
		two // with an endpoint on another node
		none
		sticky
	)
	s.put(
		daemon.Service{Number: one, EndpointSpec: "pod-1"},
		daemon.Service{Number: two, EndpointSpec: "pod-2 remote-1"},
		daemon.Service{Number: none},
		daemon.Service{Number: sticky, EndpointSpec: "pod-1 pod-2 remote-1", Affinity: time.Hour},
	)
	// Sockets make a host of the lab refuse SCTP elsewhere, as a kernel with SCTP does.
	for _, a := range []netip.Addr{loopbackAddrs[model.IPv4], loopbackAddrs[model.IPv6], otherLoopback} {
		_, err := s.Node.ServeAt(model.SCTP, addrPort(a, port))
		s.must(err)
	}
	kept := by(anySource, "pod-1 pod-2 remote-1") // all programs of the node are one client
	kept.spread = same
	for i, step := range localhostSteps {
		t.Run(fmt.Sprintf("%d %s gate=%s", i, step.flag, step.gate), func(t *testing.T) {
			s.t = t
			if kubeProxy != "" {
				// 1.37.2 cannot turn it on by a restart: it deletes a chain to which map
				// elements still lead, and the sync of all Services fails with EBUSY.
				s.must(s.Node.Command(t.Context(), kubeProxy, "--cleanup").Run())
			}
			var served [2][]netip.Addr
			for _, f := range model.Families {
				if step.primary {
					served[f] = append(served[f], primaryAddrs[f])
				}
			}
			defer s.startServing(served, daemon.PodRanges, "--nodeport-addresses="+step.flag, localhostGate+step.gate)()
			clear(s.kept) // by which address connections come to the Service depends on the flag
			s.check(t, s.localhostCells(step.served, map[int]result{
				one: by(anySource, "pod-1"), two: by(anySource, "pod-2 remote-1"), none: isRefused, sticky: kept,
			}))
		})
	}
}

// localhostCells waits until the proxy listens, and returns the questions to Services on
// loopback addresses.
func (s *scene) localhostCells(served string, services map[int]result) (cells []cell) {
	s.t.Helper()
	for n, answer := range services {
		for _, w := range daemon.Transports() {
			c := cell{name: "localhost", from: s.node, transport: w, to: addrPort(loopbackAddrs[w.Family], nodePorts+n), want: isRefused}
			c.list = list{service: n, transport: w}
			if served[w.Family] == 'y' && w.Protocol == model.TCP {
				if c.want = answer; !c.want.refused {
					eventually.Succeeds(s.t, "the node port answers on localhost", func() error { return s.ask(c) })
				}
			}
			cells = append(cells, c)
			if w.Family == model.IPv4 {
				c.to, c.want = netip.AddrPortFrom(otherLoopback, c.to.Port()), isRefused
				cells = append(cells, c)
			}
		}
	}
	return cells
}
