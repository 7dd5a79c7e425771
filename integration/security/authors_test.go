package security

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync/follow/listen/listentest"
)

// TestExternalIPsTakeTrafficUnlessDisabled demonstrates CVE-2020-8554: the author of a
// Service gets what this node's pods send to another host.
func TestExternalIPsTakeTrafficUnlessDisabled(t *testing.T) {
	for by, flags := range map[string][]string{"pod-2": nil, "outside": {"--feature-gates=AllowServiceExternalIPs=false"}} {
		t.Run(by, func(t *testing.T) {
			l, f := newLab(t)
			if err := l.Outside.ServeAll(daemon.Port); err != nil {
				t.Fatal(err)
			}
			thief := second(l, "thief", 1)
			thief.Edit = externalIPs(addrsOf(l.Outside)...)
			f.Put("thief", thief)
			daemon.Start(t, l.Node, f, flags...)
			daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
				for _, from := range []*lab.Host{l.Pods[0].Host, l.Node.Host} {
					answered(t, from, w, l.Outside.AddrPort(w.Family, daemon.Port), by)
				}
			})
		})
	}
}

// TestExternalIPOfTheNodeDoesNotTakeNodePorts has an older Service that claims the node's
// addresses at a node port of another one.
func TestExternalIPOfTheNodeDoesNotTakeNodePorts(t *testing.T) {
	l, f := newLab(t)
	owner := daemon.Service{
		Name: "owner", Number: 2, Endpoints: daemon.Serve(t, 1, l.Pods[0]), Kinds: []model.Kind{model.KindNodePort}, Created: time.Now(),
	}
	at := func(family model.Family) netip.AddrPort { return owner.AddrPort(l.Node, family, model.KindNodePort, 0) }
	thief := second(l, "thief", 1)
	thief.Created = time.Unix(0, 0)
	thief.ServicePorts = daemon.EveryProtocol("p-", int(at(model.IPv4).Port()), daemon.TargetPort, 0)
	thief.Edit = externalIPs(addrsOf(l.Node.Host)...)
	f.Put("services", thief, owner)
	d := daemon.Start(t, l.Node, f)
	d.Ignore("another Service holds the address and port")
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, from := range clients(l) {
			answered(t, from, w, at(w.Family), "pod-1")
		}
	})
}

// TestExternalIPOfAPodDoesNotStopItsService claims the address and port of another Service's
// endpoint for one that refuses because it has no endpoints, and for one that drops because none
// of them is on the node.
func TestExternalIPOfAPodDoesNotStopItsService(t *testing.T) {
	for name, endpoints := range map[string][]netip.Addr{
		"refuses": nil,
		"drops":   {netip.MustParseAddr("10.244.2.9"), netip.MustParseAddr("fd00:10:244:2::9")}, // of node-2
	} {
		t.Run(name, func(t *testing.T) {
			l, f := newLab(t)
			owner := second(l, "owner", 1)
			f.Put("services", owner, daemon.Service{
				Name: "thief", Number: 2, Addresses: endpoints, LocalOutside: true, Edit: externalIPs(addrsOf(l.Pods[1].Host)...),
				ServicePorts: daemon.EveryProtocol("p-", daemon.TargetPort, daemon.TargetPort, 0),
			})
			daemon.Start(t, l.Node, f)
			daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
				for _, from := range clients(l) {
					answered(t, from, w, owner.ClusterAddrPort(w.Family), "pod-2")
				}
			})
		})
	}
}

// TestManifestsMayUseNodePortsOfTheHost does what an API server forbids: manifests in a
// folder have no range of node ports.
func TestManifestsMayUseNodePortsOfTheHost(t *testing.T) {
	l, f := newLab(t)
	const ssh = 22
	if err := l.Node.ServeAll(ssh); err != nil {
		t.Fatal(err)
	}
	thief := second(l, "thief", 1)
	thief.Kinds = []model.Kind{model.KindNodePort}
	thief.ServicePorts = daemon.EveryProtocol("p-", daemon.Port, daemon.TargetPort, ssh)
	f.Put("thief", thief)
	daemon.Start(t, l.Node, f)
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		answered(t, l.Outside, w, l.Node.AddrPort(w.Family, ssh), "pod-2")
	})
}

// TestPortsInUseAreProblems has a health check node port that kube-vmap's own health server has, one
// that is a node port of another Service, and node ports that a program has on localhost.
func TestPortsInUseAreProblems(t *testing.T) {
	l, f := newLab(t)
	s, shadowed, other := balanced(l, "thief", 1, 10256), balanced(l, "shadowed", 2, 31999), second(l, "other", 3)
	other.Kinds = []model.Kind{model.KindNodePort}
	other.ServicePorts = daemon.EveryProtocol("p-", daemon.Port, daemon.TargetPort, 31999)
	for _, family := range model.Families {
		port := s.AddrPort(l.Node, family, model.KindNodePort, 0).Port()
		if _, err := l.Node.ServeAt(model.TCP, netip.AddrPortFrom(listentest.Loopback[family], port)); err != nil {
			t.Fatal(err)
		}
	}
	f.Put("services", s, shadowed, other)
	d := daemon.Start(t, l.Node, f, "--nodeport-addresses=0.0.0.0/0,::/0,localhost")
	d.Ignore("cannot listen, retrying")
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		answered(t, l.Pods[0].Host, w, s.ClusterAddrPort(w.Family), "pod-2")
		answered(t, l.Outside, w, l.Node.AddrPort(w.Family, 31999), "pod-2")
	})
	for _, family := range model.Families {
		page, err := l.Outside.Get("http://"+l.Node.AddrPort(family, 10256).String()+"/healthz", answer)
		if err != nil || !strings.Contains(page, "nodeEligible") {
			t.Errorf("the health server responds %q, %v", page, err)
		}
	}
	eventually.Succeeds(t, "problems of all ports", func() error {
		out := daemon.Run(t, l.Node.Host, "problems").Stdout
		for _, want := range []string{
			"spec.healthCheckNodePort: 10256", "FailedToStartServiceHealthcheck", "spec.healthCheckNodePort: 31999",
			"*:31999/tcp is held by Service default/other", "FailedToStartLocalhostNodePort",
		} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("%q is not in %s", want, out)
			}
		}
		return nil
	})
}

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

// TestWhoMakesDemand has a client that a policy denies after chain filter-forward, and an author who
// names another's pod.
func TestWhoMakesDemand(t *testing.T) {
	l, f := newLab(t)
	daemon.RouteServices(t, l, l.Node)
	scales := func(s *corev1.Service) { s.Annotations["kube-vmap.io/scale-to-zero"] = "true" }
	sleeper, used, curious := daemon.Service{Name: "sleeper", Number: 1}, second(l, "used", 2), second(l, "curious", 3)
	sleeper.Edit, curious.Edit, curious.Namespace = scales, scales, "other"
	f.Put("services", sleeper, used, curious)
	daemon.Start(t, l.Node, f)
	demand := func(name string) (n int) {
		page, err := l.Node.Get("http://127.0.0.1:10249/metrics", answer)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, fmt.Sprintf("kubevmap_service_demand{service_name=%q", name)) {
				_, _ = fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n)
			}
		}
		return n
	}
	rules := "add table inet later; add chain inet later forward { type filter hook forward priority 10; };"
	for _, family := range model.Families {
		rules += fmt.Sprintf("add rule inet later forward %s saddr %s drop;", nft.FamilyName(family), l.Pods[0].Addr(family))
	}
	labtest.Run(t, l.Node.Host, "", "nft", rules)
	for _, w := range daemon.Transports() {
		if a, err := l.Pods[0].Ask(w.Protocol, sleeper.ClusterAddrPort(w.Family), 100*time.Millisecond); err != nil || a.Outcome != lab.TimedOut {
			t.Errorf("a held client: %s, %v", a, err)
		}
		flow, err := l.Outside.Flow(w.Protocol, netip.AddrPort{}, used.ClusterAddrPort(w.Family))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := flow.Ask(answer); err != nil || a.Outcome != lab.Answered {
			t.Errorf("a client: %s, %v", a, err)
		}
	}
	eventually.Holds(t, "the denied client makes demand", func() bool { return demand("sleeper") == len(daemon.Transports()) })
	eventually.Holds(t, "the author learns of others' clients", func() bool { return demand("curious") == len(daemon.Transports()) })
	if n := demand("used"); n > 0 {
		t.Errorf("a demand of %d for a Service that does not scale to zero", n)
	}
}
