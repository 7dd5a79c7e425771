package security

import (
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestExternalIPsTakeTrafficUnlessDisabled demonstrates CVE-2020-8554: the author of a
// Service gets what this node's pods send to another host.
func TestExternalIPsTakeTrafficUnlessDisabled(t *testing.T) {
	for name, test := range map[string]struct {
		flags []string
		by    string
	}{
		"they are served":     {nil, "pod-2"},
		"they are not served": {[]string{"--feature-gates=AllowServiceExternalIPs=false"}, "outside"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			if err := l.Outside.ServeAll(daemon.Port); err != nil {
				t.Fatal(err)
			}
			f := daemon.NewFolder(t, l)
			put(f, service{name: "thief", number: 1, endpoints: addrsOf(l.Pods[1].Host), spec: externalIPs(addrsOf(l.Outside)...)})
			daemon.Start(t, l.Node, f, test.flags...)
			daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
				for _, from := range []*lab.Host{l.Pods[0].Host, l.Node.Host} {
					answered(t, from, w, l.Outside.AddrPort(w.Family, daemon.Port), test.by)
				}
			})
		})
	}
}

func externalIPs(addrs ...netip.Addr) string {
	var list []string
	for _, a := range addrs {
		list = append(list, `"`+a.String()+`"`)
	}
	return "externalIPs: [" + strings.Join(list, ", ") + "]\n"
}

// TestClusterIPCannotBeTakenOver has an older Service that claims another's ClusterIP. Ports
// of the address that its owner does not serve are not protected.
func TestClusterIPCannotBeTakenOver(t *testing.T) {
	l := newLab(t)
	if err := l.Pods[0].ServeAll(daemon.TargetPort); err != nil {
		t.Fatal(err)
	}
	f := daemon.NewFolder(t, l)
	owner := service{name: "owner", number: 1, endpoints: addrsOf(l.Pods[0].Host), created: "2026-01-01T00:00:00Z"}
	all := []netip.Addr{owner.clusterIP(model.IPv4), owner.clusterIP(model.IPv6)}
	thief := service{name: "thief", number: 2, endpoints: addrsOf(l.Pods[1].Host), spec: externalIPs(all...)}
	other := service{name: "other-port", number: 3, port: 81, endpoints: addrsOf(l.Pods[1].Host), spec: externalIPs(all...)}
	put(f, owner, thief, other)
	d := daemon.Start(t, l.Node, f)
	d.Ignore("another Service holds the address and port")
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, from := range clients(l) {
			answered(t, from, w, owner.at(w.Family), "pod-1")
			answered(t, from, w, thief.at(w.Family), "pod-2")
			answered(t, from, w, netip.AddrPortFrom(owner.clusterIP(w.Family), 81), "pod-2")
		}
	})
}

// TestExternalIPOfTheNodeDoesNotTakeNodePorts has an older Service that claims the node's
// addresses at a node port of another one.
func TestExternalIPOfTheNodeDoesNotTakeNodePorts(t *testing.T) {
	l := newLab(t)
	if err := l.Pods[0].ServeAll(daemon.TargetPort); err != nil {
		t.Fatal(err)
	}
	const nodePort = 30080
	f := daemon.NewFolder(t, l)
	put(f,
		service{name: "thief", number: 1, port: nodePort, endpoints: addrsOf(l.Pods[1].Host), spec: externalIPs(addrsOf(l.Node.Host)...)},
		service{
			name: "owner", number: 2, nodePort: nodePort, endpoints: addrsOf(l.Pods[0].Host), spec: "type: NodePort\n",
			created: "2026-01-01T00:00:00Z",
		})
	d := daemon.Start(t, l.Node, f)
	d.Ignore("another Service holds the address and port")
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, from := range clients(l) {
			answered(t, from, w, l.Node.AddrPort(w.Family, nodePort), "pod-1")
		}
	})
}

// TestExternalIPOfAPodDoesNotStopItsService claims the address and port of another Service's
// endpoint for one that refuses because it has no endpoints, and for one that drops because none
// of them is on the node.
func TestExternalIPOfAPodDoesNotStopItsService(t *testing.T) {
	for name, thief := range map[string]service{
		"refuses": {},
		"drops":   {endpoints: []netip.Addr{netip.MustParseAddr("10.244.9.9"), netip.MustParseAddr("fd00:10:244:9::9")}, node: "node-2"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			f := daemon.NewFolder(t, l)
			owner := service{name: "owner", number: 1, endpoints: addrsOf(l.Pods[1].Host)}
			thief.name, thief.number, thief.port = "thief", 2, daemon.TargetPort
			thief.spec = "externalTrafficPolicy: Local\n" + externalIPs(addrsOf(l.Pods[1].Host)...)
			put(f, owner, thief)
			daemon.Start(t, l.Node, f)
			daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
				for _, from := range clients(l) {
					answered(t, from, w, owner.at(w.Family), "pod-2")
				}
			})
		})
	}
}

// TestManifestsMayUseNodePortsOfTheHost does what an API server forbids: manifests in a
// folder have no range of node ports.
func TestManifestsMayUseNodePortsOfTheHost(t *testing.T) {
	l := newLab(t)
	const ssh = 22
	if err := l.Node.ServeAll(ssh); err != nil {
		t.Fatal(err)
	}
	f := daemon.NewFolder(t, l)
	put(f, service{name: "thief", number: 1, endpoints: addrsOf(l.Pods[1].Host), nodePort: ssh, spec: "type: NodePort\n"})
	daemon.Start(t, l.Node, f)
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		answered(t, l.Outside, w, l.Node.AddrPort(w.Family, ssh), "pod-2")
	})
}

// TestHealthCheckPortInUseIsNotServed uses the port of kube-vmap's own health server.
func TestHealthCheckPortInUseIsNotServed(t *testing.T) {
	l := newLab(t)
	f := daemon.NewFolder(t, l)
	s := service{
		name: "thief", number: 1, endpoints: addrsOf(l.Pods[1].Host),
		spec: "type: LoadBalancer\nexternalTrafficPolicy: Local\nhealthCheckNodePort: 10256\n",
	}
	put(f, s)
	d := daemon.Start(t, l.Node, f)
	d.Ignore("cannot listen, retrying")
	d.AwaitMessage("cannot listen, retrying")
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		answered(t, l.Pods[0].Host, w, s.at(w.Family), "pod-2")
	})
	for _, family := range model.Families {
		page, err := l.Outside.Get("http://"+l.Node.AddrPort(family, 10256).String()+"/healthz", answer)
		if err != nil || !strings.Contains(page, "nodeEligible") {
			t.Errorf("the health server responds %q, %v", page, err)
		}
	}
}
