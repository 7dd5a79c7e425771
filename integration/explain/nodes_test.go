package explain

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/predict"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// A nodeKind is a node whose routing, links or settings decide what happens to packets. Commands
// and rules are run for each family, with the names of [rig.expand].
type nodeKind struct {
	name     string
	commands string // of a shell on the node
	rules    string // of nft
	bridge   bool
	// doubt is in the doubts of packets that explain is not certain of; empty if it is of all.
	doubt string
	// lost is how many of the packets of a family are lost at least: the kind makes a difference.
	lost int
}

var nodeKinds = []nodeKind{
	{name: "plain"},
	{name: "no-forwarding", commands: `sysctl -qw net.ipv6.conf.all.forwarding=0 net.ipv4.ip_forward=0`, lost: 3},
	{name: "no-forwarding-of-one-interface", commands: `sysctl -qw net.ipv4.conf.veth4.forwarding=0`},
	{
		name:     "reply-by-another-interface",
		commands: `$ip route add default dev veth2 table 100; $ip rule add from $pod1 to $outside lookup 100`,
		doubt:    "whether a neighbour on veth2 replies for",
	},
	{
		name:     "reply-by-a-gateway-on-another-interface",
		commands: `$ip route add default via $node2 dev eth0 onlink table 100; $ip rule add from $pod2 to $pod4 lookup 100`,
		doubt:    "the reply leaves by eth0, and the client's packet is taken to come in by veth4",
	},
	{
		name:     "address-that-no-host-has",
		commands: `$ip route add $nowhere dev veth2`, doubt: "whether a neighbour on veth2 replies for",
	},
	{
		name:     "gateway-that-no-host-has",
		commands: `$ip route replace $remotes via $peer2 dev eth0 onlink`, doubt: "whether a neighbour on eth0 replies for",
	},
	{
		name: "neighbour-that-does-not-reply",
		commands: `sysctl -qw net.ipv4.neigh.eth0.retrans_time_ms=20 net.ipv6.neigh.eth0.retrans_time_ms=20
			$ip route replace $remotes via $peer2 dev eth0 onlink; bash -c "echo >/dev/udp/$remote1/9"
			until $ip neigh show to $peer2 | grep -q FAILED; do :; done`, lost: 15,
	},
	{
		name: "reverse-path-by-rules-of-routing",
		commands: `$ip route add $outside dev veth2 table 100; $ip rule add from $pod2 lookup 100;
			$ip rule add from $service lookup 100`,
		rules: `chain p { type filter hook prerouting priority -300; fib saddr . iif oif missing drop; }`, lost: 1,
	},
	{
		name: "reverse-path-of-iptables",
		commands: `$ip route add $outside dev veth2 table 100; $ip rule add from $pod2 lookup 100;
			$ip rule add from $service lookup 100
			$iptables -t raw -A PREROUTING -m rpfilter --invert -j DROP`, lost: 1,
	},
	{
		name: "time-to-live-of-iptables",
		commands: `if test $fam = ip; then $iptables -t mangle -A PREROUTING -p tcp -j TTL --ttl-set 1
			else $iptables -t mangle -A PREROUTING -p tcp -j HL --hl-set 1; fi`, lost: 2,
	},
	{
		name:     "type-of-service-of-iptables",
		commands: `$ip rule add tos 0x10 prohibit; $iptables -t mangle -A PREROUTING -p tcp -j DSCP --set-dscp 4`,
		doubt:    "type of service",
	},
	{
		name:     "reverse-path-mark",
		commands: `$ip route add default dev veth2 table 100; $ip rule add fwmark 7 lookup 100`,
		rules: `chain p { type filter hook prerouting priority -300; meta l4proto udp meta mark set 7;
			fib saddr . mark . iif oif missing drop; meta mark set 0; }`, lost: 1,
	},
	{
		name:     "next-hops-by-addresses",
		commands: `$ip route replace $remotes nexthop via $node2 dev eth0 onlink nexthop via $pod2 dev veth2 onlink`,
		rules:    `chain f { type filter hook postrouting priority 0; oifname veth2 $fam daddr $remote1 drop; }`,
	},
	{
		name: "next-hops-by-ports",
		commands: `sysctl -qw net.ipv4.fib_multipath_hash_policy=1;
			$ip route replace $remotes nexthop via $node2 dev eth0 onlink nexthop via $pod2 dev veth2 onlink`,
		rules: `chain f { type filter hook postrouting priority 0; oifname veth2 $fam daddr $remote1 drop; }`,
	},
	{
		name:     "rule-of-a-port",
		commands: `$ip rule add ipproto tcp dport 8080 prohibit`, lost: 1,
	},
	{
		name:     "rule-of-a-source-port",
		commands: `$ip rule add ipproto udp sport 8080 prohibit`, lost: 1,
	},
	{
		name:     "rule-of-a-port-of-any-protocol",
		commands: `$ip rule add dport 8080 prohibit`, doubt: "SCTP", lost: 2,
	},
	{
		name:     "rule-of-a-port-behind-a-translation",
		commands: `$ip rule add to $pod1 ipproto udp dport 8080 prohibit`, lost: 4,
	},
	{
		name:     "rule-of-a-source-port-behind-a-translation",
		commands: `$ip rule add to $pod1 ipproto tcp sport 1024-65534 prohibit`, lost: 4,
	},
	{
		name:     "rule-of-a-port-for-the-node-itself",
		commands: `$ip rule add iif lo to $pod1 ipproto udp dport 8080 prohibit`,
	},
	{
		name:     "rule-of-a-user-behind-a-translation",
		commands: `$ip rule add uidrange 0-0 to $pod1 prohibit`, lost: 3,
	},
	{
		name:     "rule-of-another-user",
		commands: `$ip rule add uidrange 1-1000 prohibit`,
	},
	{
		name:     "rule-of-the-type-of-service",
		commands: `$ip rule add tos 0x10 prohibit`,
		rules:    `chain p { type filter hook prerouting priority -300; meta l4proto tcp $fam dscp set 4; }`, lost: 1,
	},
	{
		name:     "mark-of-a-filter",
		commands: `$ip rule add fwmark 5 prohibit`,
		rules: `chain o { type filter hook output priority -150; meta l4proto {
			tcp, udp, sctp } $fam daddr $pod2 meta mark set 5; }`,
	},
	{
		name:     "mark-of-a-route-chain",
		commands: `$ip rule add fwmark 5 prohibit`,
		rules: `chain o { type route hook output priority -150; meta l4proto {
			tcp, udp, sctp } $fam daddr $pod2 meta mark set 5; }`, lost: 1,
	},
	{
		name:     "mark-of-a-listener",
		commands: `sysctl -qw net.ipv4.tcp_fwmark_accept=1; $ip rule add fwmark 5 prohibit`,
		rules:    `chain i { type filter hook input priority 0; iifname veth4 meta mark set 5; }`,
	},
	{
		name: "redirect",
		commands: `if test $fam = ip; then $ip address flush dev veth4; $ip route add $pod4 dev veth4;
			else $ip address add $other/64 dev veth4 nodad; fi`,
		rules: `chain p { type nat hook prerouting priority -100; meta l4proto {
			tcp, udp, sctp } $fam daddr $pod2 th dport 8081 redirect to :8080; }`, lost: 1,
	},
	{
		name: "masquerade-with-a-peer",
		commands: `$ip address add $peer1 peer $peer2 dev eth0; $ip route replace $remotes via $peer2 dev eth0 onlink
			$ip neigh replace $peer2 dev eth0 nud stale lladdr $($ip neigh show $node2 dev eth0 | cut -d" " -f3)`,
		rules: `chain s { type nat hook postrouting priority 100; oifname eth0 $fam daddr $remote1 masquerade; }`,
	},
	{
		name:     "masquerade-with-a-source-of-the-route",
		commands: `$ip route replace $remotes via $node2 dev eth0 src $gateway onlink`,
		rules:    `chain s { type nat hook postrouting priority 100; oifname eth0 $fam daddr $remote1 masquerade; }`,
	},
	{name: "bridge", bridge: true},
	{
		name: "bridge-without-hooks", bridge: true,
		commands: `sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0`,
		rules:    `chain f { type filter hook forward priority 0; $fam daddr $pod2 drop; }`, doubt: "br_netfilter",
	},
	{name: "bridge-without-hairpin", bridge: true, commands: `bridge link set dev veth1 hairpin off`, doubt: "hairpin is off"},
	{
		name: "bridge-of-isolated-ports", bridge: true,
		commands: `bridge link set dev veth1 isolated on; bridge link set dev veth4 isolated on`, doubt: "isolated",
	},
	{
		name: "table-of-a-bridge", bridge: true,
		commands: `test $fam = ip6 || nft 'table bridge b { chain f { type filter hook prerouting priority 0;
			ether type ip tcp dport 8080 drop; }; chain e { type filter hook input priority 0; }; }'`,
		doubt: "table bridge b, chain f, is not simulated",
	},
	{
		name: "table-of-ARP",
		commands: `test $fam = ip6 || nft 'table arp a { chain o { type filter hook output priority 0;
			arp daddr ip 10.244.1.2 drop; }; }'`,
		doubt: "table arp a, chain o, is not simulated",
	},
	{
		name: "table-of-ARP-and-a-client-without-a-route",
		commands: `$ip route add prohibit $outside; nft 'add table arp a; add chain arp a o {
			type filter hook output priority 0; }; add rule arp a o arp daddr ip 10.244.1.9 drop'`, lost: 6,
	},
	{
		name: "ingress-of-a-port", bridge: true,
		commands: `test $fam = ip6 || nft 'table netdev n { chain i {
			type filter hook ingress device veth4 priority 0; tcp dport 8080 drop; }; }'`,
		doubt: "table netdev n, chain i, sees packets of ports of cni0",
	},
	{
		name: "egress-of-a-port", bridge: true,
		commands: `nft "add table netdev n; add chain netdev n e { type filter hook egress device veth2 priority 0; }
			add rule netdev n e udp dport 8080 $fam saddr $pod4 drop"`,
		doubt: "table netdev n, chain e, sees packets of ports of cni0",
	},
	{
		name: "ingress-of-all-ports", bridge: true,
		commands: `nft "add table netdev n; add chain netdev n i { type filter hook ingress devices = { veth1, veth2, veth3, veth4 } priority 0; }
			add rule netdev n i $fam daddr $service udp dport 8080 drop"`, lost: 2,
	},
	{
		name: "ingress-of-a-bridge", bridge: true,
		commands: `nft "add table netdev n; add chain netdev n i { type filter hook ingress device cni0 priority 0; }
			add rule netdev n i $fam daddr { $service, $pod2 } drop; add rule netdev n i $fam daddr $remote1 udp dport 8080 drop"`,
		lost: 5,
	},
	{
		name: "ingress-of-a-bridge-without-hooks", bridge: true,
		commands: `sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0
			nft "add table netdev n; add chain netdev n i { type filter hook ingress device cni0 priority 0; }
			add rule netdev n i $fam daddr { $service, $pod2 } drop"`,
		doubt: "br_netfilter", lost: 6,
	},
	{
		name: "egress-of-a-bridge", bridge: true,
		commands: `nft "add table netdev n; add chain netdev n e { type filter hook egress device cni0 priority 0; }
			add rule netdev n e $fam daddr $pod2 tcp dport 8080 drop"`, lost: 2,
	},
	{
		name: "bridge-and-a-prohibited-endpoint", bridge: true,
		commands: `$ip rule add iif cni0 to $pod1 prohibit`, lost: 6,
	},
	{
		name: "bridge-and-prohibited-remotes", bridge: true,
		commands: `$ip rule add iif cni0 to $remotes prohibit`, lost: 15,
	},
	{
		name: "bridge-and-a-prohibited-neighbour", bridge: true,
		commands: `$ip rule add iif cni0 to $pod2 prohibit`, doubt: "without routing them",
	},
	{
		name: "time-to-live-on-a-bridge", bridge: true,
		rules: `chain p { type filter hook prerouting priority -300; meta l4proto tcp $ttl set 1; }`, lost: 5,
	},
	{
		name: "chains-added-later",
		commands: `nft "add table $fam one; add table $fam two { chain f { type filter hook forward priority 5;
			tcp dport 8080 reject; }; }; add chain $fam one f { type filter hook forward priority 5; };
			add rule $fam one f tcp dport 8080 drop"`,
		doubt: "which is first is not known",
	},
	{
		name: "a-mark-that-an-earlier-table-may-see",
		commands: `nft "add table $fam one; add table $fam two { chain f { type filter hook forward priority 5;
			tcp dport 8080 meta mark set 9; }; }; add chain $fam one f { type filter hook forward priority 5; };
			add rule $fam one f meta mark 9 drop"`,
		doubt: "which is first is not known",
	},
	{
		name: "a-mark-that-a-later-table-may-see",
		commands: `nft "add table $fam one; add table $fam two { chain f { type filter hook forward priority 5;
			meta mark 9 drop; }; }; add chain $fam one f { type filter hook forward priority 5; };
			add rule $fam one f tcp dport 8080 meta mark set 9"`,
		doubt: "which is first is not known",
	},
	{
		name: "chains-of-one-table-in-the-order-of-their-registration",
		commands: `nft "add table $fam one { chain f { type filter hook forward priority 5; meta mark 9 drop; };
			chain g { type filter hook forward priority 5; tcp dport 8080 meta mark set 9; }; };
			add chain $fam one h { type filter hook forward priority 5; };
			add rule $fam one h meta mark 9 meta mark set 0"`,
		lost: 3,
	},
	{
		name: "chains-in-any-order",
		commands: `nft "add table $fam one; add table $fam two { chain f { type filter hook forward priority 5;
			tcp dport 8080 reject; }; }; add chain $fam one f { type filter hook forward priority 5; };
			add rule $fam one f udp dport 8080 drop"`,
		lost: 2,
	},
	{
		name:  "later-packets-of-a-service",
		rules: `chain p { type filter hook prerouting priority -150; ct direction original ct status dnat drop; }`, lost: 2,
	},
	{
		name: "later-packets-are-invalid",
		rules: `chain p { type filter hook prerouting priority -300; $fam saddr $pod2 notrack; }; chain f {
			type filter hook forward priority 0; ct state invalid drop; }`, lost: 1,
	},
	{
		name:     "type-of-a-blackhole",
		commands: `$ip route add blackhole $nowhere`,
		rules: `chain p { type filter hook prerouting priority -300; $fam saddr $pod4 fib daddr type {
			blackhole, prohibit, unreachable } reject; }`,
	},
	{
		name: "time-to-live",
		rules: `chain p { type filter hook prerouting priority -300; meta l4proto tcp $ttl set 1; }; chain f {
			type filter hook forward priority 0; $ttl 1 reject; }`, lost: 2,
	},
	{
		name: "time-to-live-counted",
		rules: `chain p { type filter hook prerouting priority -300; meta l4proto tcp $ttl set 9; }; chain f {
			type filter hook forward priority 0; meta l4proto tcp $ttl 8 reject; }`, lost: 2,
	},
	{name: "transparent-sockets", rules: `chain p { type filter hook prerouting priority -150;
		socket transparent 1 drop; }`},
	{
		name: "packet-type",
		rules: `chain p { type filter hook prerouting priority -300; meta l4proto tcp meta pkttype set other; };
			chain f { type filter hook forward priority 0; meta pkttype broadcast drop; }`, lost: 2,
	},
	{
		name:     "client-behind-a-prohibited-route",
		commands: `$ip route add prohibit $outside`, lost: 6,
	},
	{
		name:     "client-behind-a-prohibited-route-and-a-filter",
		commands: `$ip route add prohibit $outside`,
		rules:    `chain f { type filter hook forward priority 0; iifname eth0 tcp dport 8080 reject; }`,
		doubt:    "by which interface", lost: 4,
	},
	{
		name: "packet-type-of-a-refusal",
		rules: `chain p { type filter hook prerouting priority -300; udp dport 8080 meta pkttype set other; }; chain i {
			type filter hook input priority 0; udp dport 8080 reject; }`, lost: 1,
	},
	{
		name:     "no-route-for-the-node-itself",
		commands: `$ip rule add iif lo to $outside prohibit`, lost: 0,
	},
}

func (r *rig) expand(f model.Family, text string) string {
	names := map[string]string{
		"ip": "ip -" + [...]string{"4", "6"}[f], "fam": nft.FamilyName(f), "ttl": [...]string{"ip ttl", "ip6 hoplimit"}[f],
		"iptables": [...]string{"iptables", "ip6tables"}[f],
		"node":     r.Node.Addr(f).String(), "node2": r.Remote.Addr(f).String(), "outside": r.Outside.Addr(f).String(),
		"pods": lab.PodRanges[f].String(), "remotes": lab.RemotePodRanges[f].String(), "gateway": r.Node.Gateway(f).String(),
		"service": serviceOf(f).Addr().String(), "second": serviceOf(f).Addr().Next().String(), "remote1": r.RemotePods[0].Addr(f).String(),
		"peer1": [...]string{"10.77.0.1", "fd00:77::1"}[f], "peer2": [...]string{"10.77.0.2", "fd00:77::2"}[f],
		"nowhere": [...]string{"10.99.0.0/16", "fd00:99::/64"}[f], "other": otherOf(f).String(),
	}
	for i, p := range r.Pods {
		names[fmt.Sprintf("pod%d", i+1)] = p.Addr(f).String()
	}
	return os.Expand(text, func(name string) string { return names[name] })
}

// otherOf returns another address of the node.
func otherOf(f model.Family) netip.Addr {
	return netip.MustParseAddr([...]string{"10.88.0.1", "fd00:88::1"}[f])
}

// serviceOf returns an address that rules translate to pod-1.
func serviceOf(f model.Family) netip.AddrPort {
	return netip.AddrPortFrom(lab.Nth(lab.ServiceRanges[f], 10), daemon.TargetPort)
}

// TestExplainAgreesOnNodes compares explain with what happens on nodes whose routing, links and
// settings decide it. Of each packet it must be right, or name why it is not certain.
func TestExplainAgreesOnNodes(t *testing.T) {
	for _, k := range nodeKinds {
		t.Run(k.name, func(t *testing.T) {
			r := newRigWith(t, lab.Options{Pods: 4, RemotePods: 2, Bridge: k.bridge})
			r.prepareNode(k)
			var batch []predict.Prediction
			uncertain := 0
			for _, w := range daemon.Transports() {
				for _, p := range r.nodePackets(w) {
					p.Result = r.explain(p.Packet)
					if !isUncertain(p.Result) {
						batch = append(batch, p)
						continue
					}
					uncertain++
					if text := fmt.Sprint(p.Result.Doubts, p.Result.Outcomes); k.doubt == "" || !strings.Contains(text, k.doubt) {
						t.Errorf("%s: not certain: %s", p.Packet, text)
					}
				}
			}
			if uncertain == 0 && k.doubt != "" {
				t.Errorf("explain is certain of all packets, want %q", k.doubt)
			}
			r.compareNode(batch, k.lost)
		})
	}
}

// isUncertain reports whether explain says that it is not certain.
func isUncertain(w simulate.Result) bool {
	return len(w.Doubts) > 0 || slices.ContainsFunc(w.Outcomes, func(o path.Outcome) bool {
		return o.Verdict == path.VerdictUnknown || slices.ContainsFunc(o.Endpoints, func(e path.Endpoint) bool {
			return e.Reply.Verdict == path.VerdictUnknown
		})
	})
}

// prepareNode makes the node one of a kind, beside a Service of another program.
func (r *rig) prepareNode(k nodeKind) {
	r.t.Helper()
	r.must(r.Node.ServeAll(daemon.TargetPort))
	for _, f := range model.Families {
		translate := r.expand(f, "$fam daddr $service dnat to $pod1")
		r.nft(r.expand(f, "table $fam kube-vmap { chain nothing { type filter hook input priority 3; counter; }; }; table $fam other { "+
			"chain pre { type nat hook prerouting priority -100; "+translate+"; }; chain out { type nat hook output priority -100; "+translate+"; }; "+
			"chain post { type nat hook postrouting priority 100; $fam saddr $pod1 $fam daddr $pod1 masquerade; }; "+k.rules+"; }"))
		if k.name == "masquerade-with-a-peer" {
			labtest.Run(r.t, r.Remote.Host, "", "sh", "-ec", r.expand(f, "$ip address add $peer2/"+[...]string{"24", "64"}[f]+" dev eth0"))
		}
		labtest.Run(r.t, r.Node.Host, "", "sh", "-ec", r.expand(f, k.commands))
		for _, p := range model.Protocols[:2] {
			if strings.Contains(k.commands, "$other") && f == model.IPv6 {
				_, err := r.Node.ServeAt(p, netip.AddrPortFrom(otherOf(f), daemon.TargetPort))
				r.must(err)
			}
		}
	}
}

// nodePackets returns packets of a transport that are forwarded, delivered and sent by the node.
func (r *rig) nodePackets(w daemon.Transport) (list []predict.Prediction) {
	f := w.Family
	at := func(h *lab.Host, port uint16) netip.AddrPort { return netip.AddrPortFrom(h.Addr(f), port) }
	pod1, pod2, pod4, remote := r.Pods[0].Host, r.Pods[1].Host, r.Pods[3].Host, r.RemotePods[0].Host
	for _, c := range []struct {
		from *lab.Host
		to   netip.AddrPort
	}{
		{pod4, serviceOf(f)},
		{pod1, serviceOf(f)},
		{r.Outside, serviceOf(f)},
		{r.Node.Host, serviceOf(f)},
		{pod4, at(pod2, daemon.TargetPort)},
		{pod4, at(pod2, daemon.TargetPort+1)},
		{r.Node.Host, at(pod2, daemon.TargetPort)},
		{r.Outside, at(pod2, daemon.TargetPort)},
		{pod4, at(r.Node.Host, daemon.TargetPort)},
		{r.Node.Host, at(remote, daemon.TargetPort)},
		{pod1, at(remote, daemon.TargetPort)},
		{pod2, at(remote, daemon.TargetPort)},
		{pod4, at(remote, daemon.TargetPort)},
		{pod4, at(remote, daemon.TargetPort)},
		{pod4, at(remote, daemon.TargetPort)},
		{pod4, netip.AddrPortFrom(lab.Nth(netip.MustParsePrefix(r.expand(f, "$nowhere")), 1), daemon.TargetPort)},
	} {
		if r.Pods[0].Link == "" || c.to.Addr() == c.from.Addr(f) {
			continue
		}
		p := simulate.Packet{From: c.from.Addr(f), FromPort: c.from.FreshPort(), To: c.to, Protocol: w.Protocol}
		list = append(list, predict.Prediction{Packet: p, Host: c.from})
	}
	return list
}

// compareNode sends the packets, and checks that some of them are lost.
func (r *rig) compareNode(batch []predict.Prediction, lost int) {
	r.t.Helper()
	c := predict.Comparer{Lab: r.Lab, Serves: func(h *lab.Host, port uint16) bool {
		return h == r.Node.Host && port == daemon.TargetPort || r.serves(h, port)
	}}
	for _, err := range c.Wrong(batch) {
		r.t.Error(err)
	}
	found := map[model.Family]int{}
	for _, p := range batch {
		if p.LosesReply() || !p.Result.Outcomes[0].Arrives() {
			found[p.Family()]++
		}
	}
	r.t.Logf("%d of %d packets are certain; lost: %v", len(batch), len(daemon.Transports())*len(r.nodePackets(daemon.Transports()[0])), found)
	if found[model.IPv4]+found[model.IPv6] < 2*lost {
		r.t.Errorf("lost: %v, want %d at least", found, lost)
	}
}
