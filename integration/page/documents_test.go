package page

import (
	"fmt"
	"strconv"

	"kube-vmap/cmd/inspect/nodestatus"
)

func copied(s *nodestatus.Service, brief bool) nodestatus.Service {
	out := *s
	if brief {
		n := s.EndpointCount()
		out.Addresses = &n
	}
	out.Ports = append([]nodestatus.Port(nil), s.Ports...)
	for i := range out.Ports {
		out.Ports[i].Frontends = append([]nodestatus.Frontend(nil), s.Ports[i].Frontends...)
		out.Ports[i].Endpoints = append([]nodestatus.Endpoint(nil), s.Ports[i].Endpoints...)
		if brief {
			out.Ports[i].Endpoints = nil
		}
	}
	return out
}

// families and their prefixes in addresses.
var families = []string{"IPv4", "IPv6"}

// address returns an address of a Service or an endpoint, by its number.
func address(family string, subnet string, n int) string {
	if family == "IPv6" {
		return fmt.Sprintf("fd00:%s::%x", map[string]string{"96": "10:96", "244": "10:244"}[subnet], n)
	}
	return fmt.Sprintf("10.%s.%d.%d", subnet, n/250, n%250+1)
}

// port returns a port with n endpoints, all in use, and a ClusterIP.
func port(name, protocol, family string, number uint16, service, n int) nodestatus.Port {
	p := nodestatus.Port{
		Name: name, Protocol: protocol, Family: family, Scheduler: "random",
		Frontends: []nodestatus.Frontend{{
			Address: address(family, "96", service), Port: number, Kind: "ClusterIP", Policy: "Cluster", Verdict: "Balance", Masquerade: "off-pod",
		}},
	}
	for k := range n {
		local := (*int)(nil)
		where := "node-" + strconv.Itoa(k%4+1)
		if k%4 == 0 {
			local = ptr(k / 4)
		}
		p.Endpoints = append(p.Endpoints, nodestatus.Endpoint{
			Address: address(family, "244", service*8+k), Port: 8080, Slot: ptr(k), LocalSlot: local, Node: where, Conditions: &nodestatus.Conditions{Ready: true, Serving: true},
			Traffic: nodestatus.Traffic{Active: (service*7 + k*3) % 40, Connections: uint64(service * 31)},
		})
		p.Active += (service*7 + k*3) % 40
		p.Connections += uint64(service * 31)
	}
	if n == 0 {
		p.Frontends[0].Verdict = "Reject"
	}
	p.Frontends[0].Traffic = p.Traffic
	return p
}

func ptr[V any](v V) *V { return &v }

// web returns a Service with everything: all kinds of frontends, both families, unused
// endpoints, Local policy, source ranges.
func web() nodestatus.Service {
	s := nodestatus.Service{Namespace: "shop", Name: "web"}
	for _, f := range families {
		p := port("http", "TCP", f, 80, 10, 3)
		external, balancer := "198.51.100.7", "203.0.113.20"
		sources := []string{"198.51.100.0/24", "192.0.2.0/25"}
		if f == "IPv6" {
			external, balancer, sources = "2001:db8:51::7", "2001:db8:113::20", []string{"2001:db8:51::/48"}
		}
		p.Frontends = append(p.Frontends,
			nodestatus.Frontend{Port: 30080, Kind: "NodePort", Policy: "Local", Verdict: "Balance", Masquerade: "never"},
			nodestatus.Frontend{Address: external, Port: 80, Kind: "ExternalIP", Policy: "Cluster", Verdict: "Balance", Masquerade: "always"},
			nodestatus.Frontend{
				Address: balancer, Port: 80, Kind: "LoadBalancerIP", Policy: "Local", Verdict: "Balance", Masquerade: "never",
				Restricted: true, Sources: sources,
			},
		)
		p.Endpoints = append(p.Endpoints,
			nodestatus.Endpoint{Address: address(f, "244", 88), Port: 8080, Node: "node-2", Conditions: &nodestatus.Conditions{Serving: true}, Reason: "it is not ready"},
			nodestatus.Endpoint{Address: address(f, "244", 89), Port: 8080, Node: "node-3", Conditions: &nodestatus.Conditions{Ready: true, Serving: true}, Reason: "its hints name zone-b, and this node is in zone-a", ZoneHints: []string{"zone-b"}},
		)
		s.Ports = append(s.Ports, p)
	}
	s.Problems = []nodestatus.Problem{{
		Object: "Service shop/web", Reason: "AddressConflict",
		Text: "198.51.100.7:80/tcp belongs to Service shop/old, which claimed it first",
	}}
	return s
}

// shopkeeping returns typical Services.
func shopkeeping() []nodestatus.Service {
	dns := nodestatus.Service{Namespace: "kube-system", Name: "kube-dns"}
	for _, f := range families {
		dns.Ports = append(dns.Ports, port("dns", "UDP", f, 53, 9, 3), port("dns-tcp", "TCP", f, 53, 9, 3))
	}
	diameter := nodestatus.Service{Namespace: "core", Name: "diameter", Ports: []nodestatus.Port{port("", "SCTP", "IPv4", 3868, 12, 1)}}
	cart := nodestatus.Service{Namespace: "shop", Name: "cart", Ports: []nodestatus.Port{port("http", "TCP", "IPv4", 80, 13, 0)}}
	local := nodestatus.Service{Namespace: "shop", Name: "uploads", Ports: []nodestatus.Port{port("https", "TCP", "IPv4", 443, 14, 2)}}
	for k := range local.Ports[0].Endpoints {
		local.Ports[0].Endpoints[k].LocalSlot, local.Ports[0].Endpoints[k].Node = nil, "node-3"
	}
	local.Ports[0].Frontends = append(local.Ports[0].Frontends, nodestatus.Frontend{
		Address: "203.0.113.21", Port: 443, Kind: "LoadBalancerIP", Policy: "Local", Verdict: "Drop", Masquerade: "never",
	})
	session := nodestatus.Service{Namespace: "shop", Name: "sessions", Ports: []nodestatus.Port{port("http", "TCP", "IPv4", 80, 15, 12)}}
	session.Ports[0].AffinitySeconds = 10800
	return []nodestatus.Service{dns, diameter, cart, local, session, web()}
}

// crowd returns n Services of many namespaces.
func crowd(n int) (all []nodestatus.Service) {
	for i := range n {
		protocol := []string{"TCP", "UDP", "SCTP"}[i%3]
		all = append(all, nodestatus.Service{
			Namespace: fmt.Sprintf("team-%02d", i*7%60), Name: fmt.Sprintf("api-%04d", i),
			Ports: []nodestatus.Port{port("", protocol, families[i%2], uint16(80+i%4*1000), 100+i, 1+i%6)},
		})
	}
	return all
}

// shop returns a single node with typical Services and more, connections to them and some
// problems.
func shop(more int) *fleet {
	f := newFleet(1, func() []nodestatus.Service { return append(shopkeeping(), crowd(more)...) })
	f.rates["node-1"]["shop/web"], f.rates["node-1"]["kube-system/kube-dns"] = 615, 4680
	d := f.at["node-1"]
	d.NodeAddresses = []string{"192.0.2.1", "2001:db8::1"}
	d.Problems = []nodestatus.Problem{
		{Object: "EndpointSlice shop/search-x2x7p", Reason: "Unusable", Text: "address 127.0.0.1 cannot be an endpoint"},
		{Object: "ServiceCIDR other", Reason: "Unusable", Text: "10.96.0.0/33 is no prefix"},
	}
	for i := range d.Services {
		if s := &d.Services[i]; s.Namespace == "shop" && s.Name == "cart" {
			s.Problems = []nodestatus.Problem{{
				Object: "Service shop/cart:http", Reason: "NoPort", Text: "port http: its EndpointSlices name no port http, but one called web",
			}}
		}
	}
	return f
}
