package matrix

import (
	"net/netip"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Further addresses of node-1: NodePorts are served at another if the flags say so, at
// stray never.
var (
	anotherAddrs = [2]netip.Addr{netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8:2::11")}
	strayAddrs   = [2]netip.Addr{netip.MustParseAddr("192.0.2.12"), netip.MustParseAddr("2001:db8:2::12")}
)

// nodePortAddresses is the flag with the primary and the other address.
const nodePortAddresses = "--nodeport-addresses=192.0.2.1/32,192.0.2.11/32,2001:db8:2::1/128,2001:db8:2::11/128"

const (
	// port is the port of Services.
	port = daemon.Port
	// nodePorts is the NodePort of Service 0.
	nodePorts = 30000
)

// nth returns the n-th address of a range, n being at most 255.
func nth(p netip.Prefix, n int) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-1] = byte(n)
	a, _ := netip.AddrFromSlice(b)
	return a
}

// kind is a kind of frontend, the NodePort at two addresses.
type kind uint8

const (
	clusterIP kind = iota
	nodePort
	// nodePortOther is the NodePort at the node's other address.
	nodePortToo
	vip
	externalIP
)

// kinds are all kinds, usual those without nodePortOther.
var (
	kinds = []kind{clusterIP, nodePort, nodePortToo, vip, externalIP}
	usual = []kind{clusterIP, nodePort, vip, externalIP}
)

// String returns the name in the tables.
func (k kind) String() string {
	return [...]string{"ClusterIP", "NodePort", "NodePort at the node's other address", "load balancer IP", "external IP"}[k]
}

// at returns where the n-th Service has its port 80.
func (k kind) at(f model.Family, n int) netip.AddrPort { return k.port(f, n, port, nodePorts+n) }

// port returns where the n-th Service has a port with this NodePort.
func (k kind) port(f model.Family, n, port, nodePort int) netip.AddrPort {
	switch k {
	case clusterIP:
		return addrPort(daemon.Service{Number: n}.Addr(f, model.KindClusterIP), port)
	case nodePortToo:
		return addrPort(anotherAddrs[f], nodePort)
	case vip:
		return addrPort(daemon.Service{Number: n}.Addr(f, model.KindLoadBalancerIP), port)
	case externalIP:
		return addrPort(daemon.Service{Number: n}.Addr(f, model.KindExternalIP), port)
	}
	return addrPort(nodeAddr(f), nodePort)
}

func nodeAddr(f model.Family) netip.Addr { return nth(lab.OutsideRanges[f], 1) }

func addrPort(a netip.Addr, port int) netip.AddrPort { return netip.AddrPortFrom(a, uint16(port)) }
