package shadow

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
)

const (
	everywhere = "pod-1 pod-2 remote-1 remote-2"
	inZone     = "pod-1/zone=zone-of-node-1 pod-2/zone=zone-of-node-1 remote-1/zone=zone-of-node-2"
	onNode     = "pod-1/node=node-1 remote-1/node=node-2"
)

// scene returns Services of every kind, of which nothing differs.
func scene() []daemon.Service {
	list := []daemon.Service{
		{Name: "plain", EndpointSpec: everywhere},
		{Name: "one", EndpointSpec: "pod-1"},
		{Name: "outside-local", EndpointSpec: everywhere, LocalOutside: true},
		{Name: "inside-local", EndpointSpec: everywhere, LocalInside: true},
		{Name: "local", EndpointSpec: everywhere, LocalInside: true, LocalOutside: true},
		{Name: "nothing-local", EndpointSpec: "remote-1 remote-2", LocalInside: true, LocalOutside: true},
		{Name: "sticky", EndpointSpec: everywhere, Affinity: 100 * time.Second},
		{Name: "sticky-long", EndpointSpec: everywhere, Affinity: 3 * time.Hour},
		{Name: "sticky-local", EndpointSpec: everywhere, Affinity: time.Minute, LocalInside: true, LocalOutside: true},
		{Name: "sticky-one", EndpointSpec: "pod-2", Affinity: time.Minute},
		{Name: "ranges", EndpointSpec: everywhere, Sources: []string{"198.51.100.0/24", "203.0.113.128/25", "2001:db8:9::/48", "10.244.1.0/24"}},
		{Name: "ranges-ip4", EndpointSpec: everywhere, Sources: []string{"198.51.100.7/32"}},
		{Name: "ranges-all", EndpointSpec: everywhere, Sources: []string{"0.0.0.0/0", "::/0"}},
		{Name: "ranges-node", EndpointSpec: everywhere, Sources: []string{"192.0.2.0/24", "2001:db8:2::/64"}, LocalOutside: true},
		{Name: "zones", EndpointSpec: inZone},
		{Name: "nodes", EndpointSpec: onNode},
		{Name: "terminating", EndpointSpec: "pod-1/terminating remote-1/terminating remote-2/terminated"},
		{Name: "unready", EndpointSpec: "pod-1/unready pod-2 remote-1/unready", LocalOutside: true},
	}
	number(list)
	empty := daemon.Service{Name: "empty", Number: 50, EndpointSpec: "", Kinds: daemon.Kinds}
	plainClusterIP := daemon.Service{Name: "cluster-only", Number: 51, EndpointSpec: everywhere}
	return append(list, empty, plainClusterIP)
}

// number gives all Services numbers and all kinds of addresses.
func number(list []daemon.Service) {
	for i := range list {
		list[i].Number, list[i].Kinds = i+1, daemon.Kinds
	}
}

// intended returns Services that differ on purpose.
func intended() []daemon.Service {
	list := []daemon.Service{
		{Name: "weights", EndpointSpec: "pod-1/weight=3 | remote-1/weight=1"},
		{Name: "drained", EndpointSpec: "pod-1/weight=0 | remote-1"},
		{Name: "all-drained", EndpointSpec: "pod-1/weight=0"},
		{Name: "held", Hold: time.Minute},
		{Name: "standby", EndpointSpec: "pod-1 pod-2/priority=1 remote-1/priority=1"},
		{Name: "source-hash", EndpointSpec: everywhere, Scheduler: "sh"},
		{Name: "maglev", EndpointSpec: everywhere, Scheduler: "mh"},
		{Name: "round-robin", EndpointSpec: everywhere, Scheduler: "rr"},
		{Name: "odd-affinity", EndpointSpec: everywhere, Affinity: 1234 * time.Second},
		{Name: "ranges-empty", Sources: []string{"198.51.100.0/24", "2001:db8:9::/48"}},
		{Name: "winner", EndpointSpec: "pod-1", Created: time.Unix(1000, 0)},
		{Name: "loser", EndpointSpec: "pod-2", Created: time.Unix(2000, 0)},
	}
	number(list)
	for i := range list {
		list[i].Number += 60
	}
	for i := len(list) - 2; i < len(list); i++ {
		list[i].Edit = func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"198.51.100.200", "2001:db8:c8::c8"} }
	}
	return list
}
