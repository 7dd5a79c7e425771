package explain

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	stdsync "sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/pathcheck"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/predict"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
)

// randomNodes is how many nodes the long suite compares, and fewRandomNodes how many others do. Of a
// hundred packets, explain is not certain of maxUncertain.
const randomNodes, fewRandomNodes, maxUncertain = 300, 20, 10

// A piece is what a program or an administrator sets on a node: commands, and the content of a
// table of nft. Both are expanded for each family. One of several texts is used.
type piece struct {
	name            string
	commands, rules []string
}

// pieces are as people have them. Chains of nft take the place of iptables', which has the same
// hooks and priorities.
var pieces = []piece{
	{name: "docker", rules: []string{
		`chain user { return; }; chain isolation { iifname veth1 oifname veth2 drop; return; }; chain FORWARD {
			type filter hook forward priority 0; policy drop; jump user; jump isolation;
			ct state established,related accept; iifname "veth*" accept; oifname "veth*" ct status dnat accept;
			oifname veth2 accept; }; chain POST { type nat hook postrouting priority 100;
			$fam saddr $pods oifname eth0 masquerade; }`,
		`chain FORWARD { type filter hook forward priority 0; policy drop;
			oifname veth1 ct state established,related accept; iifname "veth*" accept; iifname cni0 accept;
			oifname veth1 tcp dport 8080 accept; oifname cni0 accept; }; chain PRE {
			type nat hook prerouting priority -100; fib daddr type local meta l4proto tcp th dport 8081 dnat to $pod2;
			}`,
	}},
	{name: "firewalld", rules: []string{
		`chain pre { type filter hook prerouting priority -290; icmpv6 type {
			nd-router-advert, nd-neighbor-solicit } accept; fib saddr . iif oif missing drop; }; chain FWD {
			type filter hook forward priority 10; ct state established,related accept; ct status dnat accept;
			iifname lo accept; ct state invalid drop; iifname "veth*" accept; iifname cni0 accept; reject; }`,
		`chain pre { type filter hook prerouting priority -290; fib saddr . mark . iif oif missing drop; };
			chain in { type filter hook input priority 10; ct state established,related accept; iifname lo accept;
			meta l4proto { icmp, ipv6-icmp } accept; tcp dport { 22, 8080 } accept; ct state invalid drop; reject; }`,
	}},
	{name: "ufw", rules: []string{
		`chain before { ct state established,related accept; ct state invalid drop; meta l4proto {
			icmp, ipv6-icmp } accept; }; chain FORWARD { type filter hook forward priority 0; policy drop;
			jump before; $fam saddr $outside udp dport 8080 accept; iifname "veth*" tcp dport 8080-8081 accept;
			iifname cni0 accept; }`,
		`chain INPUT { type filter hook input priority 0; policy drop; iifname lo accept;
			ct state established,related accept; meta l4proto { icmp, ipv6-icmp } accept;
			fib daddr type != local drop; fib saddr type { blackhole, unreachable, prohibit } drop;
			udp dport 8080 accept; $fam saddr $pod4 accept; }; chain OUTPUT { type filter hook output priority 0;
			ct state new udp dport 8080 accept; }`,
	}},
	{name: "calico", rules: []string{
		`chain raw { type filter hook prerouting priority -300; meta mark set meta mark & 0xfff0ffff;
			iifname "veth*" meta mark set meta mark | 0x40000;
			meta mark & 0x40000 == 0x40000 fib saddr . mark . iif oif missing drop; }; chain mangle {
			type filter hook prerouting priority -150; ct state established,related accept; }; chain FWD {
			type filter hook forward priority -1; ct state invalid drop;
			oifname veth2 udp dport 8080 meta mark set meta mark | 0x10000; meta mark & 0x10000 == 0x10000 accept;
			oifname veth1 tcp dport != { 8080, 8082 } drop; }`,
		`chain raw { type filter hook prerouting priority -300; iifname veth4 udp dport 8081 notrack;
			iifname veth2 udp sport 8081 notrack; }; chain FWD { type filter hook forward priority 0;
			ct state invalid drop; ct state established,related accept; }`,
		`chain post { type nat hook postrouting priority 100;
			$fam saddr $pods $fam daddr != $pods fib daddr type != local masquerade; }; chain out {
			type route hook output priority -150; $fam daddr $service meta mark set 0x20; }`,
	}},
	{name: "policy routing", commands: []string{
		`$ip route add default via $node2 dev eth0 onlink table 100; $ip rule add from $pod2 lookup 100`,
		`$ip route add prohibit default table 100; $ip rule add fwmark 0x20 lookup 100`,
		`$ip route add prohibit $remotes table 100; $ip rule add iif veth4 lookup 100`,
		`$ip rule add ipproto udp dport 8081 prohibit`,
		`$ip rule add ipproto tcp sport 8080 to $outside prohibit`,
		`$ip rule add iif lo to $remote1 unreachable`,
		`$ip rule add from $pod4 to $remotes blackhole`,
		`$ip rule add iif eth0 lookup 100; $ip route add prohibit $pod2 table 100`,
		`$ip rule add tos 0x10 prohibit`,
		`$ip route add default dev veth2 table 100; $ip rule add from $pod1 to $outside lookup 100`,
		`$ip route replace $remotes via $node2 dev eth0 src $gateway onlink`,
		`$ip route replace $remotes nexthop via $node2 dev eth0 onlink nexthop via $pod2 dev veth2 onlink;
			nft "table $fam hops { chain f { type filter hook postrouting priority 0;
			oifname veth2 $fam daddr $remotes drop; }; }"`,
		`$ip route add blackhole $nowhere; $ip route add unreachable $remote1`,
		`$ip rule add uidrange 1000-1000 prohibit`,
		`$ip rule add to $pod1 ipproto tcp dport 8080 prohibit`,
		`$ip rule add iif lo to $pod1 dport 8080 prohibit`,
		`$ip rule add uidrange 0-0 to $pod1 unreachable`,
		`$ip route add prohibit $outside`,
		`$ip route replace $remotes via $peer2 dev eth0 onlink`,
	}},
	{name: "settings", commands: []string{
		`sysctl -qw net.ipv4.conf.all.rp_filter=1`,
		`sysctl -qw net.ipv4.conf.eth0.rp_filter=2`,
		`sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0`,
		`sysctl -qw net.ipv4.conf.eth0.forwarding=0`,
		`sysctl -qw net.ipv4.tcp_fwmark_accept=1`,
		`sysctl -qw net.ipv4.fib_multipath_hash_policy=1 net.ipv6.fib_multipath_hash_policy=1`,
		`sysctl -qw net.netfilter.nf_conntrack_tcp_be_liberal=1`,
	}},
	{name: "administrator", rules: []string{
		`chain o { type filter hook output priority -150; $fam daddr { $pod2, $remote1 } meta mark set 0x20; }`,
		`chain p { type filter hook prerouting priority -150; ct status dnat ct direction original drop; }`,
		`chain p { type filter hook prerouting priority -300; $fam saddr $pod2 tcp sport 8080 notrack; }`,
		`chain p { type filter hook prerouting priority -300; udp dport 8080 $ttl set 1; }`,
		`chain p { type filter hook prerouting priority -300; tcp dport 8081 $fam dscp set 4; }`,
		`chain p { type filter hook prerouting priority -300; udp dport 8080 meta pkttype set other; }`,
		`chain p { type nat hook prerouting priority -100; $fam daddr $pod2 udp dport 8081 redirect to :8080; }`,
		`chain f { type filter hook forward priority 0; tcp dport 8081 reject; }`,
		`chain f { type filter hook forward priority 0; udp dport 8080 drop; tcp dport 8081 drop; }`,
		`chain f { type filter hook forward priority 0; ct state established ct direction original tcp dport 8080 drop; }`,
		`chain f { type filter hook postrouting priority 0; oifname veth2 $fam daddr $remote1 drop; ct mark 7 drop; }`,
		`chain f { type filter hook forward priority 0; meta length > 100 udp dport 8080 drop; $ttl < 2 drop; }`,
		`chain f { type filter hook forward priority 0; numgen random mod 4 0 udp dport 8080 drop; }`,
		`chain f { type filter hook forward priority 0; ct state new limit rate over 100000/second drop; }`,
		`chain i { type filter hook input priority 0; fib daddr . iif type local tcp dport 8080 reject; };
			chain m { type filter hook prerouting priority -150; iifname eth0 meta mark set 0x20; }`,
		`chain i { type filter hook input priority 0; iifname veth4 meta mark set 0x20; }`,
		`chain f { type filter hook forward priority 0; udp dport 8080 meta mark set 0x30; }`,
		`chain f { type filter hook forward priority 0; meta mark 0x30 drop; }`,
	}},
	{name: "links", commands: []string{
		`if test $fam = ip; then bridge link set dev veth1 hairpin off || true; fi`,
		`if test $fam = ip; then nft 'table arp a { chain o { type filter hook output priority 0;
			arp daddr ip 10.244.1.2 drop; }; }'; fi`,
		`if test $fam = ip; then nft 'table bridge b { chain f { type filter hook forward priority 0;
			ether type ip tcp dport 8080 drop; }; }'; fi`,
		`if test $fam = ip; then nft 'table netdev n { chain i { type filter hook ingress device veth4 priority 0;
			udp dport 8081 drop; }; }'; fi`,
		`nft "table netdev n { chain b { type filter hook ingress device cni0 priority 0; $fam daddr { $service, $pod2,
			$remote1 } drop; }; }"`,
		`nft "table netdev n { chain c { type filter hook egress device cni0 priority 0; $fam daddr $pod2 tcp dport 8080 drop; }; }"`,
		`sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0`,
		`if test $fam = ip; then $ip address del $gateway/32 dev veth4 && $ip route replace $pod4 dev veth4 || true; fi`,
		`$ip address add $peer1 peer $peer2 dev eth0`,
		`$ip address add $other/64 dev veth4 nodad 2>/dev/null || $ip address add $other/24 dev veth4`,
	}},
}

// TestExplainAgreesOnRandomNodes compares explain with what happens on nodes of random pieces. The
// seed of a node is in the name of its test.
func TestExplainAgreesOnRandomNodes(t *testing.T) {
	nodes := randomNodes
	if testing.Short() {
		nodes = fewRandomNodes
	}
	total := tally{reasons: map[string]int{}, checks: map[string]int{}}
	t.Run("nodes", func(t *testing.T) {
		for seed := range nodes {
			t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(uint64(seed), 41))
				r := newRigWith(t, lab.Options{Pods: 4, RemotePods: 2, Bridge: random.IntN(6) == 0})
				r.compareRandomNode(random, &total)
			})
		}
	})
	t.Log(&total)
	if all := total.right + total.uncertain + total.unsteady + total.wrong; total.uncertain*100 > all*maxUncertain {
		t.Errorf("not certain of more than %d %%", maxUncertain)
	}
	if n := total.reasons[noReason]; n > 0 {
		t.Errorf("not certain of %d packets without a reason", n)
	}
}

const noReason = "no reason"

// A tally counts nodes and packets, and those that explain is not certain of by the reason.
type tally struct {
	mu                                       stdsync.Mutex
	nodes, right, uncertain, unsteady, wrong int
	reasons                                  map[string]int
	checks                                   map[string]int // check packets, by state
}

// String returns the numbers.
func (a *tally) String() string {
	return fmt.Sprintf("%d nodes: %d packets right, %d not certain, %d wrong once, %d wrong twice; check packets: %v; not certain because of %v",
		a.nodes, a.right, a.uncertain, a.unsteady, a.wrong, a.checks, a.reasons)
}

func (a *tally) count(n *int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*n++
}

func (a *tally) countCheck(state string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks[state]++
}

// countUncertain counts a packet by the first reason, without names.
func (a *tally) countUncertain(w simulate.Result) {
	reason := noReason
	if len(w.Doubts) > 0 {
		reason = regexp.MustCompile(`[a-z0-9]*\d+`).ReplaceAllString(w.Doubts[0].Why, "N")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uncertain++
	a.reasons[reason]++
}

func (r *rig) compareRandomNode(random *rand.Rand, total *tally) {
	r.t.Helper()
	r.must(r.Node.ServeAll(daemon.TargetPort))
	names := r.addRandomPieces(random)
	total.count(&total.nodes)
	c := predict.Comparer{Lab: r.Lab, Serves: func(h *lab.Host, port uint16) bool {
		return h == r.Node.Host && port == daemon.TargetPort || r.serves(h, port)
	}}
	var group errgroup.Group
	group.SetLimit(64)
	for _, w := range transports() {
		for _, p := range r.nodePackets(w) {
			r.mu.Lock()
			p.Result = r.explain(p.Packet)
			r.mu.Unlock()
			if isUncertain(p.Result) {
				total.countUncertain(p.Result)
				continue
			}
			group.Go(func() error { r.compareTwice(c, p, total, names); return nil })
		}
	}
	_ = group.Wait()
	r.compareCheckPackets(total, names)
}

// compareCheckPackets sends check packets: those of a client outside and of a pod to addresses that
// rules translate to pods, and to a port of the node.
func (r *rig) compareCheckPackets(total *tally, names string) {
	r.t.Helper()
	var targets []pathcheck.Target
	for _, f := range model.Families {
		r.must(r.Outside.AddAddress(pathcheck.Clients[f]))
		for n, h := range []*lab.Host{r.Pods[0].Host, r.RemotePods[0].Host} {
			to := netip.AddrPortFrom(lab.Nth(lab.ServiceRanges[f], 10+n), daemon.TargetPort)
			for _, kind := range []model.Kind{model.KindClusterIP, model.KindLoadBalancerIP} {
				targets = append(targets, pathcheck.Target{
					To: to, Protocol: model.TCP, Kind: kind, Endpoints: []netip.AddrPort{h.AddrPort(f, daemon.TargetPort)},
				})
			}
		}
	}
	r.must(r.Node.Do(func() error {
		results, err := pathcheck.Simulate(livenode.Config{}, func(n *livenode.Network) []pathcheck.Packet {
			return pathcheck.Choose(n, targets, []uint16{daemon.TargetPort})
		})
		for _, c := range results {
			total.countCheck(c.State)
			lost := c.State == pathcheck.Delivered && !r.isAnswered(c, answer) && !r.isAnswered(c, answer)
			if lost || c.State == pathcheck.Lost && r.isAnswered(c, silence) {
				r.t.Errorf("%s: said to be %s\nof: %s", c.Text, c.State, names)
			}
		}
		return err
	}))
}

// isAnswered sends a check packet.
func (r *rig) isAnswered(c pathcheck.Result, timeout time.Duration) bool {
	from := r.Outside
	for _, p := range r.Pods {
		if p.Addr(c.Family()) == c.From {
			from = p.Host
		}
	}
	a, err := from.AskFrom(c.Protocol, netip.AddrPortFrom(c.From, from.FreshPort()), c.To, timeout)
	r.must(err)
	return a.Outcome == lab.Answered
}

// compareTwice compares a packet, and one like it if the prediction is wrong: a loss may have
// another cause on a busy machine.
func (r *rig) compareTwice(c predict.Comparer, p predict.Prediction, total *tally, names string) {
	first := c.Wrong([]predict.Prediction{p})
	if len(first) == 0 {
		total.count(&total.right)
		return
	}
	r.mu.Lock()
	p.FromPort = p.Host.FreshPort()
	result, err := r.live.Run(p.Packet, "")
	r.mu.Unlock()
	if p.Result = result; err == nil && len(c.Wrong([]predict.Prediction{p})) == 0 {
		total.count(&total.unsteady)
		return
	}
	total.count(&total.wrong)
	r.t.Errorf("%v %v\nof: %s", first, err, names)
}

// addRandomPieces makes the node one of random pieces, in random order, and returns their texts.
func (r *rig) addRandomPieces(random *rand.Rand) string {
	r.t.Helper()
	chosen := []string{
		"table $fam kube-vmap { chain nothing { type filter hook input priority 3; counter; }; }",
		"table $fam service { chain pre { type nat hook prerouting priority -100; $fam daddr $service dnat to $pod1; }; " +
			"chain out { type nat hook output priority -100; $fam daddr $service dnat to $pod1; }; " +
			"chain post { type nat hook postrouting priority 100; $fam saddr $pod1 $fam daddr $pod1 masquerade; }; }",
		"table $fam second { chain pre { type nat hook prerouting priority -101; $fam daddr $second dnat to $remote1; }; " +
			"chain post { type nat hook postrouting priority 99; iifname eth0 ct status dnat $fam daddr $remote1 masquerade; }; }",
	}
	for n := range 2 + random.IntN(4) {
		p := pieces[random.IntN(len(pieces))]
		if p.commands != nil {
			chosen = append(chosen, "!"+pick(random, p.commands))
			continue
		}
		chosen = append(chosen, fmt.Sprintf("table $fam piece-%d { %s; }", n, pick(random, p.rules)))
	}
	random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	for _, text := range chosen {
		for _, f := range model.Families {
			if command, is := strings.CutPrefix(text, "!"); is {
				// A second piece of the same kind may have made it impossible.
				labtest.Run(r.t, r.Node.Host, "", "sh", "-c", r.expand(f, command)+" 2>/dev/null || true")
				continue
			}
			r.nft(r.expand(f, text))
		}
	}
	return strings.Join(chosen, "\n")
}
