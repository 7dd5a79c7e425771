package invalid

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// portText returns the port in digits.
func portText(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

// plain translates for the Service with one plain rule for each of its addresses, without any
// further rules of a proxy.
func plain(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, f := range model.Families {
		s := service(l)
		cluster := s.AddrPort(l.Node, f, model.KindClusterIP, 0)
		rules := strings.NewReplacer(
			"FAMILY", map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"}[f],
			"CLUSTER", cluster.Addr().String(),
			"BALANCER", s.Addr(f, model.KindLoadBalancerIP).String(),
			"NODEPORT", portText(s.AddrPort(l.Node, f, model.KindNodePort, 0)),
			"NODE", l.Node.Addr(f).String(),
			"PORT", portText(cluster),
			"ENDPOINT", l.Pods[1].AddrPort(f, daemon.TargetPort).String(),
			"POD", l.Pods[0].Addr(f).String(),
		).Replace(`
			table FAMILY plain {
				chain translate {
					FAMILY daddr { CLUSTER, BALANCER } tcp dport PORT dnat to ENDPOINT
					FAMILY daddr NODE tcp dport NODEPORT dnat to ENDPOINT
				}
				chain prerouting { type nat hook prerouting priority -100; jump translate; }
				chain output { type nat hook output priority -100; jump translate; }
				chain postrouting {
					type nat hook postrouting priority 100
					ct original FAMILY daddr CLUSTER FAMILY saddr != POD masquerade
				}
			}`)
		cmd := l.Node.Command(t.Context(), "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("nft: %v\n%s", err, out)
		}
	}
}
