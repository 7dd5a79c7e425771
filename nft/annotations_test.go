package nft

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/nfttest"
)

// TestServicesWithAnnotationsTakeElementsOnly compares the chains and sets of one Service with source
// ranges, nodes and a slow start, and of 10,000.
func TestServicesWithAnnotationsTakeElementsOnly(t *testing.T) {
	t.Parallel()
	objects := func(n int) (names []string) {
		m := model.NewServiceMap(model.Options{}, model.Node{Name: "node-1", Labels: "role=edge"})
		for _, endpoints := range []int{1, 2} { // the second one starts slowly
			for i := range n {
				s := model.Service{
					Name:         model.ServiceName{Namespace: fmt.Sprint(i % 50), Name: fmt.Sprint(i)},
					Ports:        []model.ServicePort{{Protocol: model.TCP, Port: 80, NodePort: uint16(20000 + i)}},
					RangesForAll: true, Nodes: model.NodeSelector{{Labels: "role=edge"}}, SlowStart: time.Minute,
				}
				for _, f := range model.Families {
					s.ClusterIPs = append(s.ClusterIPs, nfttest.Addr(f, 96, i))
					s.ExternalIPs = append(s.ExternalIPs, nfttest.Addr(f, 198, i))
					client := nfttest.Addr(f, 16, i)
					s.SourceRanges = append(s.SourceRanges, netip.PrefixFrom(client, client.BitLen()-8).Masked())
					s.DeniedRanges = append(s.DeniedRanges, netip.PrefixFrom(client, client.BitLen()))
					slice := model.EndpointSlice{
						Name: model.EndpointSliceName{Namespace: s.Name.Namespace, Name: fmt.Sprint(i, f)}, Service: s.Name,
						Family: f, Ports: []model.EndpointPort{{Protocol: model.TCP, Port: 8080}},
					}
					for k := range endpoints {
						slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: nfttest.Addr(f, byte(244+k), i), Ready: true})
					}
					m.SetSlice(slice)
				}
				m.SetService(s)
			}
			m.Changes()
		}
		frontends := m.Frontends()
		if want := 6 * n; len(frontends) != want {
			t.Errorf("of %d Services are %d frontends, want %d", n, len(frontends), want)
		}
		rules, _ := Adopt(sampleConfig, Tables{}, Change{Set: frontends})
		for f, table := range rules.Tables() {
			for _, name := range slices.Concat(slices.Collect(maps.Keys(table.Chains)), slices.Collect(maps.Keys(table.Sets))) {
				names = append(names, fmt.Sprint(FamilyName(model.Family(f)), " ", name))
			}
		}
		slices.Sort(names)
		return names
	}
	one, many := objects(1), objects(10_000)
	if !slices.Equal(one, many) {
		t.Errorf("one Service has\n%q\n10,000 have\n%q", one, many)
	}
	for _, name := range []string{"ip source-check", "ip6 source-check-node-ports", "ip denied-sources-32", "ip6 allowed-sources-120"} {
		if !slices.Contains(one, name) {
			t.Errorf("there is no %s: %q", name, one)
		}
	}
}
