package diagnosis

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/preflight"
	"kube-vmap/cmd/programs"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// noAnswer is how long to wait for a response that does not come.
const noAnswer = 300 * time.Millisecond

func (s *scene) write(path, value string) {
	s.t.Helper()
	if err := s.Node.Do(func() error { return os.WriteFile("/proc/sys/net/"+path, []byte(value), 0) }); err != nil {
		s.t.Fatal(err)
	}
}

// A trap is a way in which a node can lose packets of Services: commands that set it and unset it, in
// which $ipt is a family's iptables, $fam its name in nft, $v ipv4 or ipv6, and $link a pod's interface.
type trap struct {
	name, set, unset string
	// lost and health report whether packets of Services are lost, and health checks; here that those
	// from outside to other nodes are not.
	lost, health, here bool
	// says is what status and preflight name as the reason.
	says string
	// families are those that have the setting; nil means both.
	families []model.Family
}

const noRoute = "the node does not forward what comes in by "

var (
	only4, only6 = model.Families[:1], model.Families[1:]

	traps = []trap{
		{name: "none"},
		{
			name: "link-local neighbours", families: only6,
			set:   "for n in 7 8 9; do ip neighbour add fe80::$$n lladdr 02:00:00:00:00:09 nud permanent dev eth0; done",
			unset: "for n in 7 8 9; do ip neighbour delete fe80::$$n dev eth0; done",
		},
		{
			name: "no forwarding", set: "sysctl -qw net.ipv4.ip_forward=0", unset: "sysctl -qw net.ipv4.ip_forward=1",
			lost: true, says: noRoute + "eth0 (net.ipv4.ip_forward is 0)", families: only4,
		},
		{
			name: "no forwarding", set: "sysctl -qw net.ipv6.conf.all.forwarding=0", unset: "sysctl -qw net.ipv6.conf.all.forwarding=1",
			lost: true, says: "net.ipv6.conf.all.forwarding", families: only6,
		},
		{
			name: "no forwarding from outside", set: "sysctl -qw net.ipv4.conf.eth0.forwarding=0", unset: "sysctl -qw net.ipv4.conf.eth0.forwarding=1",
			lost: true, says: noRoute + "eth0 (net.ipv4.conf.eth0.forwarding is 0)", families: only4,
		},
		{
			name: "no forwarding from pods", set: "sysctl -qw net.ipv4.conf.$link.forwarding=0", unset: "sysctl -qw net.ipv4.conf.$link.forwarding=1",
			lost: true, here: true, says: "(net.ipv4.conf.$link.forwarding is 0)", families: only4,
		},
		{
			name: "last rule rejects", set: "$ipt -A FORWARD -j REJECT", unset: "$ipt -F",
			lost: true, says: "by table $fam filter, chain FORWARD, rule handle ",
		},
		{
			name: "policy", set: "$ipt -P FORWARD DROP", unset: "$ipt -P FORWARD ACCEPT",
			lost: true, says: "dropped by table $fam filter, chain FORWARD, whose policy it is",
		},
		{
			name: "policy, one rule", set: "$ipt -P FORWARD DROP; $ipt -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT",
			unset: "$ipt -F; $ipt -P FORWARD ACCEPT", lost: true, says: "dropped by table $fam filter, chain FORWARD, whose policy it is",
		},
		{name: "policy, all accepted", set: "$ipt -P FORWARD DROP; $ipt -A FORWARD -j ACCEPT", unset: "$ipt -F; $ipt -P FORWARD ACCEPT"},
		{
			name: "last rule drops", set: "nft 'table inet mine { chain f { type filter hook forward priority 10; ct state established accept; meta nfproto $v drop; }; }'",
			unset: "nft delete table inet mine", lost: true, says: "dropped by table inet mine, chain f, rule handle ",
		},
		{
			name: "input rejects", set: "$ipt -A INPUT -p tcp --dport 22 -j ACCEPT; $ipt -A INPUT -p tcp -j REJECT", unset: "$ipt -F",
			health: true, says: "by table $fam filter, chain INPUT, rule handle ",
		},
		{
			name: "input policy", set: "$ipt -A INPUT -p tcp --dport 22 -j ACCEPT; $ipt -A INPUT -i lo -j ACCEPT; $ipt -P INPUT DROP",
			unset: "$ipt -P INPUT ACCEPT; $ipt -F", health: true, says: "dropped by table $fam filter, chain INPUT, whose policy it is",
		},
	}
)

// TestLostPacketsAreReported compares what status, problems and preflight say with what becomes of
// packets: from outside to node ports and addresses of a load balancer, from a pod to another node,
// and to health check ports.
func TestLostPacketsAreReported(t *testing.T) {
	s := newScene(t, 1, 1)
	here := daemon.Service{Name: "here", Number: 1, Kinds: daemon.Kinds[1:], Endpoints: s.servers[:1]}
	other := daemon.Service{Name: "other", Number: 2, Kinds: daemon.Kinds[1:], Endpoints: s.servers[1:]}
	s.folder.Put("web", here, other)
	daemon.Start(t, s.Node, s.folder)
	for _, trap := range traps {
		for _, f := range model.Families {
			if trap.families != nil && !slices.Contains(trap.families, f) {
				continue
			}
			t.Run(trap.name+", "+f.String(), func(t *testing.T) {
				s.t = t
				expand := func(text string) string {
					names := map[string]string{
						"$": "$", "ipt": [...]string{"iptables-nft", "ip6tables-nft"}[f], "fam": nft.FamilyName(f), "v": strings.ToLower(f.String()), "link": s.Pods[0].Link,
					}
					return os.Expand(text, func(name string) string { return names[name] })
				}
				labtest.Run(t, s.Node.Host, "", "sh", "-ec", expand(trap.set))
				if trap.name == "policy" { // the daemon notices without a request, too
					eventually.Holds(t, "lost packets are counted", func() bool {
						text, err := s.Node.Get("http://127.0.0.1:10249/metrics", answer)
						return err == nil && strings.Contains(text, `kubevmap_check_packets{state="lost"} 5`)
					})
				}
				s.expectPackets(f, here, other, trap)
				s.expectReport(f, trap, expand(trap.says))
				labtest.Run(t, s.Node.Host, "", "sh", "-ec", expand(trap.unset))
			})
		}
	}
}

// expectPackets checks what becomes of packets.
func (s *scene) expectPackets(f model.Family, here, other daemon.Service, trap trap) {
	s.t.Helper()
	healthz := netip.AddrPortFrom(s.Node.Addr(f), 10256)
	for _, c := range []struct {
		from *lab.Host
		to   netip.AddrPort
		lost bool
	}{
		{s.Outside, here.AddrPort(s.Node, f, model.KindNodePort, 0), trap.lost},
		{s.Outside, here.AddrPort(s.Node, f, model.KindLoadBalancerIP, 0), trap.lost},
		{s.Outside, other.AddrPort(s.Node, f, model.KindNodePort, 0), trap.lost && !trap.here},
		{s.Outside, other.AddrPort(s.Node, f, model.KindLoadBalancerIP, 0), trap.lost && !trap.here},
		{s.Pods[0].Host, other.AddrPort(s.Node, f, model.KindClusterIP, 0), trap.lost},
		{s.Outside, healthz, trap.health},
	} {
		timeout := answer
		if c.lost {
			timeout = noAnswer
		}
		connects := func() bool {
			ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
			defer cancel()
			conn, err := c.from.DialContext(ctx, "tcp", c.to.String())
			if err == nil {
				conn.Close()
			}
			return err == nil
		}
		if connects() == c.lost {
			s.t.Errorf("from %s to %s: lost: %t", c.from.Name, c.to, !c.lost)
		}
	}
}

// expectReport checks what status, problems and preflight say.
func (s *scene) expectReport(f model.Family, trap trap, says string) {
	s.t.Helper()
	code := 0
	if trap.lost {
		code = 1
	}
	eventually.Succeeds(s.t, "status and problems", func() error {
		status, problems := s.run("status"), s.run("problems", "--observe", "0")
		reported := strings.Contains(status.Stdout, "PROBLEM") || strings.Contains(status.Stdout, "NOTICE")
		if status.ExitCode != code || problems.ExitCode != code || !strings.Contains(status.Stdout, says) || reported != (says != "") ||
			code == 1 && !strings.Contains(problems.Stdout, says) {
			return fmt.Errorf("want %q:\n%v\n%v", says, status, problems)
		}
		return nil
	})
	out, r := s.preflight()
	if passes := f.String() + " from a pod to a ClusterIP, pod on another node"; says == "" && !strings.Contains(out.Stdout, passes) {
		s.t.Errorf("preflight: want %q in %s", passes, out)
	}
	for name, lost := range map[string]bool{"packets of Services": trap.lost, "health checks": trap.health} {
		verdict := programs.Fine
		if lost {
			verdict = programs.Needs
		}
		for _, i := range r.Items {
			if i.Name == name && (i.Verdict != verdict || lost && !strings.Contains(i.Detail, says)) {
				s.t.Errorf("preflight: %+v, want %s, %q", i, verdict, says)
			}
		}
	}
}

func (s *scene) preflight() (out daemon.Output, r preflight.Report) {
	s.t.Helper()
	out = s.run("preflight", "-o", "json")
	if err := json.Unmarshal([]byte(out.Stdout), &r); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return out, r
}

// TestPacketsPassToHostsNotYetKnown has a node that has sent nothing to other nodes for a while: the
// kernel does not know their link layer addresses any longer.
func TestPacketsPassToHostsNotYetKnown(t *testing.T) {
	s := newScene(t, 1, 1)
	labtest.Run(t, s.Node.Host, "", "sh", "-ec", "ip -4 neighbour flush all; ip -6 neighbour flush all")
	out, r := s.preflight()
	i := slices.IndexFunc(r.Items, func(i preflight.Item) bool { return i.Name == "packets of Services" })
	for _, f := range model.Families {
		passes := f.String() + " from outside to a node port, pod on another node"
		if r.Items[i].Verdict != programs.Fine || !strings.Contains(out.Stdout, passes) {
			t.Errorf("%+v, want %q", r.Items[i], passes)
		}
	}
}

// TestUnusedFamilyNeedNotForward has no endpoint in a family, or only the node itself.
func TestUnusedFamilyNeedNotForward(t *testing.T) {
	for name, endpoints := range map[string]func(*scene) daemon.Service{
		"no IPv6 endpoints": func(s *scene) daemon.Service {
			return daemon.Service{Addresses: []netip.Addr{s.Pods[0].Addr(model.IPv4)}}
		},
		"the node itself": func(s *scene) daemon.Service { return daemon.Service{Endpoints: []*lab.Host{s.Node.Host}} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 1, 0)
			web := endpoints(s)
			web.Name, web.Number, web.Kinds = "web", 1, []model.Kind{model.KindNodePort}
			s.folder.Put("web", web)
			daemon.Start(t, s.Node, s.folder)
			s.write("ipv6/conf/all/forwarding", "0")
			if len(web.Addresses) == 0 {
				s.write("ipv4/ip_forward", "0")
			}
			if out := s.run("status"); out.ExitCode != 0 || strings.Contains(out.Stdout, "forwarded") {
				t.Errorf("%v", out)
			}
		})
	}
}
