package security

import (
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestServiceAddressesAreNotEndpoints checks that connections are translated once: an
// endpoint with the address of a Service is a dead end, not a loop.
func TestServiceAddressesAreNotEndpoints(t *testing.T) {
	l, f := newLab(t)
	good := second(l, "good", 1)
	good.Kinds = []model.Kind{model.KindNodePort}
	nodePort := func(family model.Family) netip.AddrPort { return good.AddrPort(l.Node, family, model.KindNodePort, 0) }
	dead := []daemon.Service{
		{Name: "itself", Number: 2, Addresses: clusterIPs(2)},
		{Name: "other", Number: 3, Addresses: clusterIPs(good.Number)},
		{Name: "ring-a", Number: 4, Addresses: clusterIPs(5)},
		{Name: "ring-b", Number: 5, Addresses: clusterIPs(4)},
		{Name: "node-port", Number: 6, Addresses: addrsOf(l.Node.Host)},
	}
	for i := range dead {
		dead[i].ServicePorts = daemon.EveryProtocol("p-", daemon.Port, daemon.Port, 0)
	}
	dead[4].ServicePorts = daemon.EveryProtocol("p-", daemon.Port, int(nodePort(model.IPv4).Port()), 0)
	f.Put("services", append(dead, good)...)
	// Hosts without SCTP do not refuse it.
	if _, err := l.Node.Serve(model.SCTP, 9); err != nil {
		t.Fatal(err)
	}
	daemon.Start(t, l.Node, f)
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, from := range clients(l) {
			answered(t, from, w, good.ClusterAddrPort(w.Family), "pod-2")
			answered(t, from, w, nodePort(w.Family), "pod-2")
			for _, s := range dead {
				refused(t, from, w, s.ClusterAddrPort(w.Family))
			}
		}
	})
}

func clusterIPs(number int) (all []netip.Addr) {
	for _, f := range model.Families {
		all = append(all, daemon.Service{Number: number}.Addr(f, model.KindClusterIP))
	}
	return all
}

// TestHostOnlyAddressesAreNotEndpoints tries to reach sockets that only the node itself can
// reach.
func TestHostOnlyAddressesAreNotEndpoints(t *testing.T) {
	l, f := newLab(t)
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	for _, p := range []model.Protocol{model.TCP, model.UDP} { // the lab has no SCTP on loopback
		for _, a := range loopback {
			if _, err := l.Node.ServeAt(p, netip.AddrPortFrom(a, daemon.TargetPort)); err != nil {
				t.Fatal(err)
			}
		}
	}
	services := []daemon.Service{
		{Name: "loopback", Number: 1, Addresses: loopback},
		{Name: "link-local", Number: 2, Addresses: []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fe80::a9fe:a9fe")}},
		{Name: "broadcast", Number: 3, Addresses: []netip.Addr{netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("ff02::1")}},
	}
	for _, s := range services {
		f.Put(s.Name, s)
	}
	d := daemon.Start(t, l.Node, f)
	d.Ignore("object unusable, wholly or in part")
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, from := range []*lab.Host{l.Pods[0].Host, l.Outside} {
			for _, s := range services {
				refused(t, from, w, s.ClusterAddrPort(w.Family))
			}
		}
	})
}
