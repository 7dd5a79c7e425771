package matrix

import (
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

func TestBesideCalicoIPTables(t *testing.T) { beside(t, recorded("calico-iptables")) }

// TestBesideCalicoIPTablesLegacy has the same rules in iptables-legacy, whose chains nft does
// not list.
func TestBesideCalicoIPTablesLegacy(t *testing.T) {
	p := recordedFor("legacy", "calico-iptables")
	p.sameStart = true
	beside(t, p)
}

func TestBesideCalicoNftables(t *testing.T) { beside(t, recorded("calico-nftables")) }

func TestBesideCilium(t *testing.T) { beside(t, recorded("cilium")) }

func TestBesideKubeRouter(t *testing.T) { beside(t, recorded("kube-router")) }

func TestBesideKubeRouterIPTables(t *testing.T) { beside(t, recorded("kube-router-iptables")) }

func TestBesideKubelet(t *testing.T) { beside(t, recorded("kubelet")) }

// TestBesideRulesOfKubeProxy has what kube-proxy left behind, for Services of another cluster.
func TestBesideRulesOfKubeProxy(t *testing.T) {
	beside(t, recorded("../../../takeover/testdata/iptables"))
}

func TestBesideAntrea(t *testing.T) { beside(t, recorded("antrea")) }

func TestBesideAzureCNI(t *testing.T) { beside(t, recorded("azure")) }

// TestBesideIstioAmbient has rules that give connections of the node to pods another
// source.
func TestBesideIstioAmbient(t *testing.T) {
	p := recorded("istio-ambient")
	p.masquerades = "node"
	beside(t, p)
}

// TestBesideForwardPolicyDrop has rules that accept the ranges of pods.
func TestBesideForwardPolicyDrop(t *testing.T) {
	p := recorded("forward-drop")
	p.drops = true
	beside(t, p)
}

// dns is the number of the Service that node-local-dns serves, on its port.
const dns = 200

// TestBesideNodeLocalDNS has a server of the node at a ClusterIP, to which packets get
// without being translated while the rules of node-local-dns exist.
func TestBesideNodeLocalDNS(t *testing.T) {
	p := recorded("node-local-dns")
	var servers []*lab.Server
	add := p.load
	p.load = func(s *scene) {
		add(s)
		if servers != nil {
			return
		}
		s.command("", "ip", "link", "add", "nodelocaldns", "type", "bridge") // not each kernel has dummy
		for _, f := range model.Families {
			at := clusterIP.port(f, dns, 53, 0)
			s.command("", "ip", "address", "add", at.Addr().String(), "dev", "nodelocaldns", "nodad")
			for _, protocol := range []model.Protocol{model.TCP, model.UDP} {
				server, err := s.Node.ServeAt(protocol, at)
				s.must(err)
				servers = append(servers, server)
			}
		}
	}
	asks := func(t *testing.T, s *scene, who string) {
		t.Helper()
		at := func(f model.Family) netip.AddrPort { return clusterIP.port(f, dns, 53, 0) }
		s.check(t, of(asksAt([]*client{s.pod, s.node}, at, by(anySource, who)), model.TCP, model.UDP))
	}
	p.unload = func(s *scene) {
		for _, server := range servers {
			s.must(server.Close())
		}
		servers = nil
		s.command("", "ip", "link", "delete", "nodelocaldns")
		s.deleteOtherTables()
		asks(s.t, s, "pod-2")
	}
	p.services = []daemon.Service{{Number: dns, EndpointSpec: "pod-2", ServicePorts: []daemon.ServicePort{
		{Name: "dns", Protocol: model.UDP, Port: 53, Target: daemon.TargetPort},
		{Name: "dns-tcp", Protocol: model.TCP, Port: 53, Target: daemon.TargetPort},
	}}}
	p.check = func(t *testing.T, s *scene) { asks(t, s, "node-1") }
	beside(t, p)
}
