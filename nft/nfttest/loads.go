package nfttest

import (
	"net/netip"

	"kube-vmap/model"
)

// TenEndpointsEach are the frontends of n Services with ten endpoints each, which are
// reached at their ClusterIP only.
func TenEndpointsEach(n int) []model.Frontend {
	var out []model.Frontend
	addr, pod := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.244.0.1")
	for range n {
		pool := &model.Pool{Key: model.Match{Family: model.IPv4, Addr: addr, Protocol: model.TCP, Port: 80}}
		for range 10 {
			pool.Cluster = append(pool.Cluster, netip.AddrPortFrom(pod, 8080))
			pod = pod.Next()
		}
		out = append(out, model.Frontend{
			Match:      pool.Key,
			Service:    model.ServicePortName{ServiceName: model.ServiceName{Namespace: "default", Name: "web"}, Protocol: model.TCP},
			Masquerade: model.MasqueradeOffPod,
			Pool:       pool,
		})
		addr = addr.Next()
	}
	return out
}

// TenEndpointsFromOutside are the same with a node port and an address of a load balancer
// under Local policy for each, three of the endpoints being on this node.
func TenEndpointsFromOutside(n int) []model.Frontend {
	out, vip := TenEndpointsEach(n), netip.MustParseAddr("203.0.113.1")
	for i := range n {
		inside := out[i]
		inside.Pool.Local = inside.Pool.Cluster[:3]
		nodePort := inside
		nodePort.Kind, nodePort.Policy, nodePort.Masquerade = model.KindNodePort, model.PolicyLocal, model.MasqueradeNever
		nodePort.Match.Addr, nodePort.Match.Port = netip.Addr{}, uint16(20000+i)
		balancer := nodePort
		balancer.Kind, balancer.Match = model.KindLoadBalancerIP, inside.Match
		balancer.Match.Addr = vip
		vip = vip.Next()
		out = append(out, nodePort, balancer)
	}
	return out
}
