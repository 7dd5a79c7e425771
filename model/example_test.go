package model_test

import (
	"fmt"
	"net/netip"

	"kube-vmap/model"
)

// Two Services and their EndpointSlices become frontends. When an endpoint goes, only
// the frontends of its Service change.
func ExampleServiceMap() {
	services := model.NewServiceMap(model.Options{}, model.Node{Name: "node-1"})

	web := model.ServiceName{Namespace: "shop", Name: "web"}
	services.SetService(model.Service{
		Name:           web,
		ClusterIPs:     []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Ports:          []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80, NodePort: 30080}},
		ExternalPolicy: model.PolicyLocal,
	})
	dns := model.ServiceName{Namespace: "kube-system", Name: "dns"}
	services.SetService(model.Service{
		Name:       dns,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.53")},
		Ports:      []model.ServicePort{{Name: "dns", Protocol: model.UDP, Port: 53}},
	})

	endpoint := func(addr, node string) model.Endpoint {
		return model.Endpoint{Addr: netip.MustParseAddr(addr), Node: node, Ready: true, Serving: true}
	}
	slice := model.EndpointSlice{
		Name:      model.EndpointSliceName{Namespace: "shop", Name: "web-x7k2p"},
		Service:   web,
		Ports:     []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: 8080}},
		Endpoints: []model.Endpoint{endpoint("10.244.1.4", "node-1"), endpoint("10.244.2.7", "node-2")},
	}
	services.SetSlice(slice)
	show(services.Changes())

	fmt.Println("The endpoint on node-1 goes:")
	slice.Endpoints = slice.Endpoints[1:]
	services.SetSlice(slice)
	show(services.Changes())

	fmt.Println("Service web is deleted:")
	services.DeleteService(web)
	show(services.Changes())

	// Output:
	// set *:30080/tcp NodePort of shop/web:http: balance [10.244.1.4:8080]
	// set 10.96.0.10:80/tcp ClusterIP of shop/web:http: balance [10.244.1.4:8080 10.244.2.7:8080]
	// set 10.96.0.53:53/udp ClusterIP of kube-system/dns:dns: reject []
	// The endpoint on node-1 goes:
	// set *:30080/tcp NodePort of shop/web:http: drop []
	// set 10.96.0.10:80/tcp ClusterIP of shop/web:http: balance [10.244.2.7:8080]
	// Service web is deleted:
	// gone *:30080/tcp
	// gone 10.96.0.10:80/tcp
}

func show(c model.Changes) {
	verdicts := map[model.Verdict]string{
		model.VerdictBalance: "balance", model.VerdictReject: "reject", model.VerdictDrop: "drop",
	}
	for _, f := range c.Set {
		endpoints := f.Pool.Cluster
		if f.Policy == model.PolicyLocal {
			endpoints = f.Pool.Local
		}
		fmt.Printf("set %s %s of %s: %s %v\n", f.Match, f.Kind, f.Service, verdicts[f.Verdict], endpoints)
	}
	for _, m := range c.Gone {
		fmt.Println("gone", m)
	}
}
