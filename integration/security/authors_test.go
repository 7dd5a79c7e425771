package security

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
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
