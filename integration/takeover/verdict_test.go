package takeover

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// newTenants returns a node with the Services of two more namespaces, at an endpoint of another
// Service.
func newTenants(t *testing.T) (p *probationer, tenants []daemon.Service) {
	t.Helper()
	p = newProbationer(t)
	for i, name := range []string{"a", "b"} {
		s := daemon.Service{Name: name, Namespace: name, Number: 3 + i, Endpoints: p.services[0].Endpoints}
		p.folder.Put(name, s)
		tenants = append(tenants, s)
	}
	p.services = append(p.services, tenants...)
	p.loadNFTables()
	p.awaitAnswers()
	return p, tenants
}

// eachTenant returns a table with a base chain that has a rule for each ClusterIP of tenants.
func eachTenant(base string, tenants []daemon.Service, rule func(f model.Family, number int, clusterIP string) string) string {
	text := fmt.Sprintf("table inet test { chain c { type %s;\n", base)
	for _, f := range model.Families {
		for i, s := range tenants {
			text += rule(f, i+1, fmt.Sprintf("%s daddr %s", nft.FamilyName(f), s.ClusterAddrPort(f).Addr())) + "\n"
		}
	}
	return text + "}\n}"
}

// TestEndpointsOfOneAuthorDoNotReturnTheNode has endpoints that answer the node directly, and
// refuse or drop what comes through the Services of two namespaces. By the node's marks
// they distinguish the two without fail.
func TestEndpointsOfOneAuthorDoNotReturnTheNode(t *testing.T) {
	p, tenants := newTenants(t)
	d := p.start()
	d.AwaitMessage(suspendedMessage)
	p.run(eachTenant("filter hook postrouting priority 150", tenants, func(f model.Family, number int, clusterIP string) string {
		return fmt.Sprintf("ct original %s %s dscp set %d", clusterIP, nft.FamilyName(f), number)
	}), "nft", "-f", "-")
	endpoint := &machine{t, tenants[0].Endpoints[0]}
	endpoint.run(`table inet attack { chain c { type filter hook input priority 0;
		ip dscp 1 meta l4proto tcp reject with tcp reset
		ip6 dscp 1 meta l4proto tcp reject with tcp reset
		ip dscp 2 drop
		ip6 dscp 2 drop
	}
}`, "nft", "-f", "-")
	for _, s := range tenants {
		for _, f := range model.Families {
			if a, err := p.lab.Node.Ask(model.TCP, s.ClusterAddrPort(f), silence); err != nil || a.Outcome == lab.Answered {
				t.Errorf("the attack has no effect: %s, %v", a, err)
			}
		}
	}
	for check := range 3 {
		d.AwaitMessages(4*(check+1), "connection of a check failed, but not because of rules")
	}
	if n := d.CountMessages("check of the probation failed"); n > 0 {
		t.Errorf("%d checks failed", n)
	}
	p.expect("after three checks", true, true, true, "probation until=")
}

// TestFaultyRulesOfTwoNamespacesReturnTheNode has rules that drop connections, or that send them
// to another address than the endpoint's, where they are refused or not answered.
func TestFaultyRulesOfTwoNamespacesReturnTheNode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		base string
		rule func(p *probationer, f model.Family, number int, clusterIP string) string
	}{
		"dropped": {"filter hook output priority 0", func(_ *probationer, _ model.Family, _ int, clusterIP string) string {
			return "ct original " + clusterIP + " meta l4proto tcp drop"
		}},
		"another address": {"nat hook output priority -101", func(p *probationer, f model.Family, number int, clusterIP string) string {
			to := p.lab.Pods[2].AddrPort(f, 9).String() // nothing listens
			if number == 2 {
				to = map[model.Family]string{model.IPv4: "203.0.113.9:9", model.IPv6: "[2001:db8:b::9]:9"}[f]
			}
			return fmt.Sprintf("%s meta l4proto tcp dnat %s to %s", clusterIP, nft.FamilyName(f), to)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, tenants := newTenants(t)
			d := p.start()
			d.AwaitMessage(suspendedMessage)
			d.Kill()
			d = p.start()
			p.expect("after SIGKILL and a restart", true, true, true, "probation until=")
			// It has a sample of what works by the time of its report, without which a fault is none.
			eventually.Holds(t, "a report of the probation", func() bool {
				return strings.Contains(daemon.Run(t, p.host, "problems").Stdout, "rules are suspended until")
			})
			p.run(eachTenant(tc.base, tenants, func(f model.Family, number int, clusterIP string) string {
				return tc.rule(p, f, number, clusterIP)
			}), "nft", "-f", "-")
			if reason := p.awaitReturn(d); !strings.Contains(reason, "4 of 8 addresses") {
				t.Errorf("the reason is %q", reason)
			}
			// The fault is not in our rules.
			if out := daemon.Run(t, p.host, "problems"); !strings.Contains(out.Stdout, "does not answer through kube-proxy's rules either") {
				t.Errorf("problems: %s", out)
			}
			p.expect("when returned", true, false, false, "returned at=")
			for _, f := range model.Families { // without our tables
				out := daemon.Run(t, p.host, "explain", "--from", p.lab.Node.Addr(f).String(), "--to", tenants[0].ClusterAddrPort(f).String())
				if name == "dropped" && (out.ExitCode != 1 || !strings.Contains(out.Stdout, "table inet test, chain c")) {
					t.Errorf("explain: %s", out)
				}
			}
		})
	}
}

// TestNodeIsReturnedWhereOnlyKubeProxyAcceptedPackets has a firewall that rejects what kube-proxy's
// KUBE-FORWARD does not accept, and clients outside that connect all the time.
func TestNodeIsReturnedWhereOnlyKubeProxyAcceptedPackets(t *testing.T) {
	p := newProbationer(t)
	p.services[0].Kinds = []model.Kind{model.KindNodePort}
	p.folder.Put("web", p.services[0])
	p.loadIPTables()
	var to [len(model.Families)]netip.AddrPort
	for _, f := range model.Families {
		to[f] = p.services[0].AddrPort(p.lab.Node, f, model.KindNodePort, 0)
		p.machine.loadIPTables(nftBackend, f, fmt.Sprintf("*nat\n:KUBE-NODEPORTS -\n-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n"+
			"-A KUBE-NODEPORTS -p tcp -m tcp --dport %d -j MARK --or-mark 0x4000\n"+
			"-A KUBE-NODEPORTS -p tcp -m tcp --dport %[1]d -j DNAT --to-destination %s\nCOMMIT\n*filter\n:KUBE-FORWARD -\n"+
			"-A FORWARD -j KUBE-FORWARD\n-A FORWARD -j REJECT\n-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT\n"+
			"-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\nCOMMIT\n",
			to[f].Port(), p.services[0].Endpoints[0].AddrPort(f, daemon.TargetPort)))
	}
	connect := func(f model.Family) bool {
		a, err := p.lab.Outside.AskFresh(model.TCP, netip.Addr{}, to[f], eventually.Timeout)
		return err == nil && a.Outcome == lab.Answered
	}
	for _, f := range model.Families {
		eventually.Holds(t, "kube-proxy's rules serve", func() bool { return connect(f) })
	}
	var returned atomic.Bool
	var lost, after atomic.Int32
	var clients errgroup.Group
	ctx, end := context.WithCancel(t.Context())
	for _, f := range model.Families {
		clients.Go(func() error {
			for ctx.Err() == nil {
				late := returned.Load()
				if connect(f) {
					continue
				}
				if lost.Add(1); late {
					after.Add(1)
				}
			}
			return nil
		})
	}
	d := daemon.Launch{Node: p.lab.Node, Folder: p.folder, Problems: true}.Start(t)
	d.AwaitMessage(returnedMessage)
	returned.Store(true)
	reason := p.awaitReturn(d)
	end()
	_ = clients.Wait()
	at := func(message string) string {
		return d.Logged(0, message, func(process.Entry) bool { return true })["time"]
	}
	t.Logf("suspended at %s, returned at %s: %d connections were lost", at(suspendedMessage), at(returnedMessage), lost.Load())
	if n := after.Load(); n > 0 {
		t.Errorf("%d connections were lost after the return", n)
	}
	if !strings.Contains(reason, "packets are lost that kube-proxy's rules delivered: IPv4 from outside to a node port") ||
		!strings.Contains(reason, "by table ip filter, chain FORWARD, rule handle ") || d.CountMessages("check of the probation failed") > 0 {
		t.Errorf("the reason is %q", reason)
	}
	p.expect("when returned", true, false, false, "returned at=")
}
