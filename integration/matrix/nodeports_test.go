package matrix

import (
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
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
// then served (y or n), over IPv4 and IPv6. Those with localhost are in localhost_test.go.
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
