package model_test

import (
	"fmt"
	"net/netip"

	"kube-vmap/model"
)

// A Service gets a pod, and its frontend says which endpoints serve it on this node.
func Example() {
	services := model.NewServiceMap(model.Options{}, model.Node{Name: "node-1"})
	dns := model.ServiceName{Namespace: "kube-system", Name: "kube-dns"}
	services.SetService(model.Service{
		Name:       dns,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Ports:      []model.ServicePort{{Name: "dns", Protocol: model.UDP, Port: 53}},
	})
	slice := model.EndpointSlice{
		Name: model.EndpointSliceName{Namespace: "kube-system", Name: "kube-dns-1"}, Service: dns,
		Ports: []model.EndpointPort{{Name: "dns", Protocol: model.UDP, Port: 53}},
	}
	for _, pods := range [][]string{nil, {"10.244.0.7"}, {"10.244.0.7", "10.244.1.9"}} {
		slice.Endpoints = nil
		for _, addr := range pods {
			slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: netip.MustParseAddr(addr), Ready: true, Serving: true})
		}
		services.SetSlice(slice)
		for _, f := range services.Changes().Set {
			fmt.Println(f.Match, "is served by", f.Pool.Cluster)
		}
	}
	// Output:
	// 10.96.0.10:53/udp is served by []
	// 10.96.0.10:53/udp is served by [10.244.0.7:53]
	// 10.96.0.10:53/udp is served by [10.244.0.7:53 10.244.1.9:53]
}
