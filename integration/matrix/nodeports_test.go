package matrix

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// gatewayAddrs are the addresses of node-1 towards its pods.
var (
	primaryAddrs  = [2]netip.Addr{nodeAddr(model.IPv4), nodeAddr(model.IPv6)}
	gatewayAddrs  = [2]netip.Addr{nth(lab.PodRanges[model.IPv4], 1), nth(lab.PodRanges[model.IPv6], 1)}
	loopbackAddrs = [2]netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}
)

// nodePortPlaces are the addresses of node-1, and the clients that can use them.
var nodePortPlaces = []struct {
	name  string
	addrs [2]netip.Addr
	from  func(*scene) []*client
}{
	{"primary", primaryAddrs, (*scene).clients},
	{"another", anotherAddrs, (*scene).clients},
	{"stray", strayAddrs, (*scene).clients},
	{"gateway", gatewayAddrs, (*scene).clients},
	{"loopback", loopbackAddrs, func(s *scene) []*client { return []*client{s.node} }},
}

// nodePortFlags are values of the flag, and at which of the places above NodePorts are
// then served (y or n), over IPv4 and IPv6. Those with localhost are localhostSteps.
var nodePortFlags = []struct {
	flag   string
	served [2]string
}{
	{"", [2]string{"ynnnn", "ynnnn"}},
	{"primary", [2]string{"ynnnn", "ynnnn"}},
	{"192.0.2.1/32,192.0.2.11/32,2001:db8:2::1/128,2001:db8:2::11/128", [2]string{"yynnn", "yynnn"}},
	{"192.0.2.8/29,2001:db8:2::12/128", [2]string{"nyynn", "nnynn"}},
	{"192.0.2.0/24,2001:db8:2::/64", [2]string{"yyynn", "yyynn"}},
	{"192.0.2.0/24", [2]string{"yyynn", "yyyyn"}}, // no range of a family means all addresses
	{"2001:db8:2::1/128", [2]string{"yyyyn", "ynnnn"}},
	{"0.0.0.0/0,::/0", [2]string{"yyyyn", "yyyyn"}},
	{"all", [2]string{"yyyyn", "yyyyn"}},
	{"192.0.2.1/32,2001:db8:2::1/128,all", [2]string{"yyyyn", "yyyyn"}},
	{"primary,192.0.2.8/29,2001:db8:2::12/128", [2]string{"yyynn", "ynynn"}},
}

// TestNodePortsAreServedAtListedAddressesOnly has processes of the node on
// some of the ports, which must answer wherever the proxy does not translate packets.
func TestNodePortsAreServedAtListedAddressesOnly(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	const (
		shadows = iota + 1 // also a port of a process of the node
		unused
		refuses
		drops
	)
	s.put(
		daemon.Service{Number: shadows, EndpointSpec: "pod-1"},
		daemon.Service{Number: unused, EndpointSpec: "pod-1"},
		daemon.Service{Number: refuses},
		daemon.Service{Number: drops, EndpointSpec: "remote-1", LocalOutside: true},
	)
	for _, p := range nodePortPlaces {
		for _, w := range daemon.Transports() {
			for _, n := range []int{shadows, refuses, drops} {
				_, err := s.Node.ServeAt(w.Protocol, addrPort(p.addrs[w.Family], nodePorts+n))
				s.must(err)
			}
		}
	}
	for _, c := range nodePortFlags {
		t.Run("addresses "+c.flag, func(t *testing.T) {
			s.t = t
			flags := []string{daemon.PodRanges}
			if c.flag != "" {
				flags = append(flags, "--nodeport-addresses="+c.flag)
			}
			var served [2][]netip.Addr
			for i, p := range nodePortPlaces {
				for _, f := range model.Families {
					if c.served[f][i] == 'y' {
						served[f] = append(served[f], p.addrs[f])
					}
				}
			}
			defer s.startServing(served, flags...)()
			var cells []cell
			for i, p := range nodePortPlaces {
				ask := func(clients []*client, n int, served, left result) {
					at := func(f model.Family) netip.AddrPort { return addrPort(p.addrs[f], nodePorts+n) }
					for _, q := range asksAt(clients, at, left) {
						q.name = p.name + ", not served"
						if c.served[q.transport.Family][i] == 'y' {
							q.name, q.want = p.name+", served", served
						}
						cells = append(cells, q)
					}
				}
				all, node := p.from(s), by(anySource, "node-1")
				ask(all, shadows, by(snat, "pod-1"), node)
				ask(all, unused, by(snat, "pod-1"), isRefused)
				ask(all, refuses, isRefused, node)
				ask(all[:len(all)-1], drops, by(anySource, "remote-1"), node)
				if len(all) > 1 {
					ask(all[len(all)-1:], drops, isSilent, node)
				}
			}
			s.check(t, sampled(cells))
		})
	}
}

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
