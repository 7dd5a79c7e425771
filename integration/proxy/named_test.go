package proxy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// edge are the flags of a proxy with a name.
var edge = []string{"--service-proxy-name=edge", "--healthz-bind-address=0.0.0.0:20256", "--metrics-bind-address=127.0.0.1:20249"}

// ofEdge leaves a Service to it.
func ofEdge(s *corev1.Service) { s.Labels = map[string]string{model.LabelServiceProxyName: "edge"} }

// TestTwoProxiesOnOneNode runs them in both orders: of chains with the same priority, the one added
// later is first. A warning in a log, as of changes by the other, fails the test.
func TestTwoProxiesOnOneNode(t *testing.T) {
	for name, order := range map[string][2][]string{"edge last": {nil, edge}, "edge first": {edge, nil}} {
		t.Run(name, func(t *testing.T) {
			l, f := newScene(t)
			own := daemon.Service{Name: "own", Number: 1, Kinds: daemon.Kinds, EndpointSpec: "pod-1"}
			others := daemon.Service{Name: "others", Number: 2, Kinds: daemon.Kinds, EndpointSpec: "pod-2", Edit: ofEdge}
			f.Put("services", own, others, daemon.Service{Name: "own-empty", Number: 3, Kinds: daemon.Kinds},
				daemon.Service{Name: "others-empty", Number: 4, Kinds: daemon.Kinds, Edit: ofEdge})
			for _, flags := range order {
				daemon.Start(t, l.Node, f, flags...)
			}
			daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
				for _, from := range everyone(l) {
					for _, k := range daemon.Kinds {
						for number, by := range []string{1: "pod-1", 2: "pod-2", 3: "", 4: ""} {
							if number > 0 {
								ask(t, from, w, daemon.Service{Number: number}.AddrPort(l.Node, w.Family, k, 0), by)
							}
						}
					}
				}
				for s, table := range map[*daemon.Service]string{&own: "kube-vmap", &others: "kube-vmap.edge"} {
					counted := labtest.Run(t, l.Node.Host, "", "nft", "list", "set", []string{"ip", "ip6"}[w.Family], table, "connections")
					to := s.AddrPort(l.Node, w.Family, model.KindNodePort, 0) // masqueraded
					if key := fmt.Sprintf("%s . %s . %d . ", to.Addr(), w.Protocol, to.Port()); !strings.Contains(counted, key) {
						t.Errorf("table %s did not count %s:\n%s", table, key, counted)
					}
				}
			})
			for _, family := range model.Families {
				if err := ping(l.Outside, daemon.Service{Number: 5}.Addr(family, model.KindClusterIP), silence); err == nil {
					t.Errorf("unused ClusterIP %s answers", daemon.Service{Number: 5}.Addr(family, model.KindClusterIP))
				}
			}
			daemon.Shows(t, l.Node.Host, "get services -A --service-proxy-name edge --no-headers -o name", "service/others service/others-empty")
			daemon.Shows(t, l.Node.Host, "get services -A --no-headers -o name", "service/own service/own-empty")
		})
	}
}

// ask checks which host answers, or without one that the client is refused.
func ask(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort, by string) {
	t.Helper()
	want := lab.Answer{Outcome: lab.Answered, By: by}
	if by == "" {
		want.Outcome = lab.Refused
	}
	a, err := from.AskFresh(w.Protocol, netip.Addr{}, to, answer)
	if err != nil || a.Outcome != want.Outcome || a.By != by {
		t.Errorf("%s asks %s: %s, %v, want %s", from, to, a, err, want)
	}
}

// TestNamedProxyLeavesKubeProxyAlone also stops it and removes its tables, without --force.
func TestNamedProxyLeavesKubeProxyAlone(t *testing.T) {
	l, f := newScene(t)
	f.Put("services", daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1", Edit: ofEdge})
	labtest.Run(t, l.Node.Host, "", "nft", "table ip kube-proxy { chain services { accept; }; "+
		"chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }; }")
	before := labtest.Run(t, l.Node.Host, "", "nft", "list", "ruleset")
	d := daemon.Start(t, l.Node, f, edge...)
	only(t, l, daemon.Service{Number: 1}, "pod-1")
	if after := labtest.Run(t, l.Node.Host, "", "nft", "list", "table", "ip", "kube-proxy"); after != before {
		t.Errorf("kube-proxy's table is now\n%s", after)
	}
	d.Stop()
	if out := daemon.Run(t, l.Node.Host, "cleanup"); !strings.Contains(out.Stderr, "nothing to remove") {
		t.Errorf("without the name: %s", out)
	}
	daemon.Run(t, l.Node.Host, "cleanup", "--service-proxy-name=edge")
	if after := labtest.Run(t, l.Node.Host, "", "nft", "list", "ruleset"); after != before {
		t.Errorf("after cleanup:\n%s", after)
	}
}
