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
	l := newLab(t)
	f := daemon.NewFolder(t, l)
	good := service{name: "good", number: 1, endpoints: addrsOf(l.Pods[1].Host), nodePort: 30080, spec: "type: NodePort\n"}
	itself := service{name: "itself", number: 2, target: daemon.Port}
	itself.endpoints = []netip.Addr{itself.clusterIP(model.IPv4), itself.clusterIP(model.IPv6)}
	other := service{
		name: "other", number: 3, target: daemon.Port,
		endpoints: []netip.Addr{good.clusterIP(model.IPv4), good.clusterIP(model.IPv6)},
	}
	nodePort := service{name: "node-port", number: 4, target: good.nodePort, endpoints: addrsOf(l.Node.Host)}
	ring := []service{{name: "ring-a", number: 5, target: daemon.Port}, {name: "ring-b", number: 6, target: daemon.Port}}
	for i := range ring {
		next := ring[1-i]
		ring[i].endpoints = []netip.Addr{next.clusterIP(model.IPv4), next.clusterIP(model.IPv6)}
	}
	put(f, good, itself, other, nodePort, ring[0], ring[1])
	// Hosts without SCTP do not refuse it.
	if _, err := l.Node.Serve(model.SCTP, 9); err != nil {
		t.Fatal(err)
	}
	daemon.Start(t, l.Node, f)
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, from := range clients(l) {
			answered(t, from, w, good.at(w.Family), "pod-2")
			answered(t, from, w, l.Node.AddrPort(w.Family, uint16(good.nodePort)), "pod-2")
			for _, dead := range []service{itself, other, nodePort, ring[0], ring[1]} {
				refused(t, from, w, dead.at(w.Family))
			}
		}
	})
}

// TestHostOnlyAddressesAreNotEndpoints tries to reach sockets that only the node itself can
// reach.
func TestHostOnlyAddressesAreNotEndpoints(t *testing.T) {
	l := newLab(t)
	f := daemon.NewFolder(t, l)
	secret := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	for _, p := range []model.Protocol{model.TCP, model.UDP} { // the lab has no SCTP on loopback
		for _, a := range secret {
			if _, err := l.Node.ServeAt(p, netip.AddrPortFrom(a, daemon.TargetPort)); err != nil {
				t.Fatal(err)
			}
		}
	}
	metadata := []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fe80::a9fe:a9fe")}
	broadcast := []netip.Addr{netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("ff02::1")}
	services := map[string]service{}
	for name, endpoints := range map[string][]netip.Addr{"loopback": secret, "link-local": metadata, "broadcast": broadcast} {
		services[name] = service{name: name, number: len(services) + 1, endpoints: endpoints}
		put(f, services[name])
	}
	d := daemon.Start(t, l.Node, f)
	d.Ignore("invalid manifest")
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, from := range []*lab.Host{l.Pods[0].Host, l.Outside} {
			for _, s := range services {
				refused(t, from, w, s.at(w.Family))
			}
		}
	})
}
