package explain

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// A trip is a packet of a host to a Service, and what is expected of the reply.
type trip struct {
	from    *lab.Host
	to      netip.AddrPort
	verdict string
	words   []string // of the command's output
}

// goes explains the packet, sends it, and compares. It returns the reply.
func (r *rig) goes(w daemon.Transport, c trip) path.Reply {
	r.t.Helper()
	p := simulate.Packet{From: c.from.Addr(w.Family), FromPort: c.from.FreshPort(), To: c.to, Protocol: w.Protocol}
	o := single(r.t, r.explain(p))
	if len(o.Endpoints) != 1 {
		r.t.Fatalf("%s: %+v", p, o)
	}
	reply := o.Endpoints[0].Reply
	if reply.Verdict != c.verdict {
		r.t.Errorf("%s: %+v, want %s", p, reply, c.verdict)
	}
	wait, code := silence, 1
	if c.verdict == path.VerdictDelivered {
		wait, code = answer, 0
	}
	asked := make(chan error)
	go func() {
		got, err := c.from.AskFrom(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To, wait)
		if err == nil && (got.Outcome == lab.Answered) != (c.verdict == path.VerdictDelivered) {
			err = fmt.Errorf("%s: %s, predicted %+v", p, got, reply)
		}
		asked <- err
	}()
	r.expect(code, c.words, "--from="+netip.AddrPortFrom(p.From, c.from.FreshPort()).String(), to(p.To, p.Protocol))
	if err := <-asked; err != nil {
		r.t.Error(err)
	}
	return reply
}

// TestRepliesDroppedByOtherPrograms has filters that see only replies, at each hook that replies
// pass: from a pod and from the node to a pod, and from a pod to the node.
func TestRepliesDroppedByOtherPrograms(t *testing.T) {
	r := newRig(t)
	r.must(r.Node.ServeAll(daemon.TargetPort))
	web := daemon.Service{Name: "web", Number: 1, Endpoints: r.servers[:1]}
	host := daemon.Service{Name: "host", Number: 2, Endpoints: []*lab.Host{r.Node.Host}}
	r.serve(web, host)
	pod, node := r.Pods[3].Host, r.Node.Host
	for _, tc := range []struct {
		name, chain, rule string
		from              *lab.Host
		to                daemon.Service
		verdict           string
		text              string
	}{
		{"by their source port before connection tracking", "type filter hook prerouting priority raw", "th sport 8080 drop", pod, web, path.VerdictDropped, "dropped"},
		{"by their direction in mangle", "type filter hook prerouting priority mangle", "ct direction reply meta l4proto { tcp, udp, sctp } ct status dnat drop", pod, web, path.VerdictDropped, "dropped"},
		{"by their state in forward", "type filter hook forward priority filter", "ct state established drop", pod, web, path.VerdictDropped, "dropped"},
		{"by a policy", "type filter hook forward priority filter; policy drop", "ct direction original accept", pod, web, path.VerdictDropped, "dropped"},
		{"by the source before its translation", "type filter hook postrouting priority mangle", "ct direction reply th sport 8080 drop", pod, web, path.VerdictDropped, "dropped"},
		{"by the source after its translation", "type filter hook postrouting priority 110", "ct direction reply th sport 80 drop", pod, web, path.VerdictDropped, "dropped"},
		{"to the node itself", "type filter hook input priority filter", "ct direction reply ct state established ct status dnat drop", node, web, path.VerdictDropped, "dropped"},
		{"of the node itself", "type filter hook output priority filter", "ct direction reply th sport 8080 drop", pod, host, path.VerdictDropped, "dropped"},
		{"of the node to itself", "type filter hook input priority 110", "ct direction reply th sport 80 drop", node, host, path.VerdictDropped, "dropped"},
		{"refused", "type filter hook forward priority filter", "ct direction reply reject with icmpx type admin-prohibited", pod, web, path.VerdictRefused, "rejected with an ICMP error"},
		{"not tracked", "type filter hook prerouting priority raw", "th sport 8080 notrack", pod, web, path.VerdictNotAccepted, "but the reply is not translated back"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "-"), func(t *testing.T) {
			r.t = t
			r.nft(fmt.Sprintf("table inet guard { chain replies { %s; %s; }; }", tc.chain, tc.rule))
			defer r.nft("delete table inet guard")
			for _, w := range transports() {
				words := []string{tc.text}
				if tc.verdict != path.VerdictNotAccepted {
					words = append(words, "by table inet guard, chain replies")
				}
				reply := r.goes(w, trip{from: tc.from, to: tc.to.ClusterAddrPort(w.Family), verdict: tc.verdict, words: words})
				if guard := reply.By.Table == "inet guard" && reply.By.Chain == "replies"; guard != (tc.verdict != path.VerdictNotAccepted) {
					t.Errorf("%s: by %+v", w, reply.By)
				}
			}
		})
	}
	r.t = t
	for _, w := range transports() {
		for _, from := range []*lab.Host{pod, node} {
			r.goes(w, trip{
				from: from, to: host.ClusterAddrPort(w.Family), verdict: path.VerdictDelivered,
				words: []string{"Back: this node answers " + from.Addr(w.Family).String() + "; the client gets"},
			})
		}
	}
}

// TestRepliesFromAnotherNode has an endpoint on node-2, and clients whose address it sees, or
// that of this node. The reply passes this node unless both are elsewhere.
func TestRepliesFromAnotherNode(t *testing.T) {
	r := newRig(t)
	far := daemon.Service{Name: "far", Number: 1, Kinds: daemon.Kinds[1:], Endpoints: r.servers[3:4]}
	near := daemon.Service{Name: "near", Number: 2, Kinds: daemon.Kinds[1:], Endpoints: r.servers[:1]}
	d := r.serve(far, near)
	for _, w := range transports() {
		f := w.Family
		for _, c := range []trip{
			{from: r.Pods[3].Host, to: far.ClusterAddrPort(f), words: []string{"answers " + r.Pods[3].Addr(f).String() + " by way of this node"}},
			{from: r.Node.Host, to: far.ClusterAddrPort(f), words: []string{"answers this node ("}},
			{from: r.Outside, to: far.AddrPort(r.Node, f, model.KindLoadBalancerIP, 0), words: []string{"answers this node (" + r.Node.Addr(f).String() + "), which answers " + r.Outside.Addr(f).String() + "; "}},
			{from: r.Outside, to: near.ClusterAddrPort(f), words: []string{"which answers " + r.Outside.Addr(f).String()}},
		} {
			c.verdict = path.VerdictDelivered
			c.words = append(c.words, "Back: the endpoint ", "; the client gets the reply from "+c.to.String())
			r.goes(w, c)
		}
	}
	d.Stop()
	// Clients by eth0 are taken for pods, which keep their addresses.
	daemon.Start(t, r.Node, r.folder, "--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=eth")
	for _, w := range transports() {
		f := w.Family
		reply := r.goes(w, trip{
			from: r.Outside, to: far.ClusterAddrPort(f), verdict: path.VerdictNotAccepted,
			words: []string{"by another way than this node", "the client gets it from the endpoint's own address"},
		})
		if !reply.Bypasses || reply.From != netip.AddrPortFrom(r.RemotePods[0].Addr(f), daemon.TargetPort).String() {
			t.Errorf("%s: %+v", w, reply)
		}
		r.goes(w, trip{from: r.Outside, to: near.ClusterAddrPort(f), verdict: path.VerdictDelivered})
		direct := r.RemotePods[0].AddrPort(f, daemon.TargetPort)
		if p := (simulate.Packet{From: r.Outside.Addr(f), FromPort: 4000, To: direct, Protocol: w.Protocol}); single(t, r.explain(p)).Endpoints[0].Reply.Verdict != path.VerdictDelivered {
			t.Errorf("%s is not translated, and the reply does not need this node", p)
		}
	}
}

// TestRepliesBetweenPodsOfABridge bypass the node, unless br_netfilter shows them to it.
func TestRepliesBetweenPodsOfABridge(t *testing.T) {
	r := newRigWith(t, lab.Options{Pods: 4, RemotePods: 2, Bridge: true})
	web := daemon.Service{Name: "web", Number: 1, Endpoints: r.servers[:1]}
	r.serve(web)
	for _, hooked := range []bool{true, false} {
		for _, name := range []string{"iptables", "ip6tables"} {
			labtest.Run(t, r.Node.Host, "", "sysctl", "-q", "-w", fmt.Sprintf("net.bridge.bridge-nf-call-%s=%d", name, map[bool]int{true: 1}[hooked]))
		}
		r.must(r.live.Close()) // it has read the settings
		r.open()
		for _, w := range transports() {
			c := trip{from: r.Pods[3].Host, to: web.ClusterAddrPort(w.Family), verdict: path.VerdictNotAccepted}
			if hooked {
				c.verdict = path.VerdictDelivered
			}
			if c.words = []string{"by way of this node"}; !hooked {
				c.words = []string{"by another way than this node"}
			}
			r.goes(w, c)
		}
	}
}

// TestOpenConnectionsMeetWhatChanged changes what made a connection, while the client and the
// endpoint go on.
func TestOpenConnectionsMeetWhatChanged(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Kinds: daemon.Kinds[1:], Endpoints: r.servers[:1]}
	d := r.serve(web)
	for _, tc := range []struct {
		name    string
		change  func()
		undo    func()
		answers bool
		words   []string
	}{
		{
			"nothing", func() {}, func() {}, true, nil,
		}, {
			"source ranges", func() {
				few := web
				few.Sources = []string{"203.0.113.0/24", "2001:db8:ffff::/64"}
				d.After(func() { r.folder.Put("services", few) })
			}, func() { d.After(func() { r.folder.Put("services", web) }) },
			true,
			[]string{"A new connection: dropped: the client is in none of the source ranges"},
		}, {
			"a REJECT rule for new connections", func() {
				r.nft("table inet later { chain forward { type filter hook forward priority 10; ct state new reject with icmpx type admin-prohibited; }; }")
			}, func() { r.nft("delete table inet later") },
			true,
			[]string{"A new connection: rejected with an ICMP error by table inet later, chain forward"},
		}, {
			"a filter for all", func() {
				r.nft("table inet later { chain forward { type filter hook forward priority 10; ct direction original ct status dnat drop; }; }")
			}, func() { r.nft("delete table inet later") },
			false,
			[]string{"Result: dropped by table inet later, chain forward"},
		}, {
			"a filter for replies", func() {
				r.nft("table inet later { chain forward { type filter hook forward priority 10; ct direction reply drop; }; }")
			}, func() { r.nft("delete table inet later") },
			false,
			[]string{"table inet later, chain forward"},
		},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "-"), func(t *testing.T) {
			r.t = t
			type opened struct {
				simulate.Packet
				flow *lab.Flow
			}
			var list []opened
			for _, w := range transports() {
				p := simulate.Packet{
					From: r.Outside.Addr(w.Family), FromPort: r.Outside.FreshPort(), Protocol: w.Protocol,
					To: web.AddrPort(r.Node, w.Family, model.KindLoadBalancerIP, 0),
				}
				flow, err := r.Outside.Flow(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To)
				r.must(err)
				if got, err := flow.Ask(answer); err != nil || got.Outcome != lab.Answered {
					t.Fatalf("%s: %s, %v", p, got, err)
				}
				list = append(list, opened{p, flow})
			}
			tc.change()
			defer tc.undo()
			for _, o := range list {
				unknown := o.Packet
				unknown.FromPort = 0
				flow, flows := r.explain(o.Packet).Flow, r.explain(unknown).Flows
				if flow == nil || flow.Endpoint != r.servers[0].AddrPort(o.Family(), daemon.TargetPort) || flow.Expires <= 0 || len(flows) == 0 {
					t.Fatalf("%s: the connection is %+v, those from any port are %v", o.Packet, flow, flows)
				}
				code := map[bool]int{false: 1}[tc.answers]
				r.expect(code, tc.words, "--from="+netip.AddrPortFrom(o.From, o.FromPort).String(), to(o.To, o.Protocol))
				wait := silence
				if tc.answers {
					wait = answer
				}
				if got, err := o.flow.Ask(wait); err != nil || (got.Outcome == lab.Answered) != tc.answers {
					t.Errorf("%s: %s, %v, want an answer: %t", o.Packet, got, err, tc.answers)
				}
				r.must(o.flow.Close())
			}
		})
	}
}

// TestRepliesToUntrackedPackets has a pod whose packets to another pod are not tracked. For
// connection tracking the reply is invalid, or begins a connection of UDP; --drop-invalid
// drops the invalid ones of TCP.
func TestRepliesToUntrackedPackets(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: r.servers[:1]}
	r.folder.Put("services", web)
	r.nft("table inet untracked { chain raw { type filter hook prerouting priority raw; th dport 8080 notrack; }; }")
	for _, drops := range []bool{false, true} {
		d := daemon.Start(t, r.Node, r.folder, fmt.Sprintf("--drop-invalid=%t", drops))
		for _, w := range transports() {
			c := trip{from: r.Pods[3].Host, to: r.Pods[0].AddrPort(w.Family, daemon.TargetPort), verdict: path.VerdictDelivered}
			if drops && w.Protocol == model.TCP {
				c.verdict = path.VerdictDropped
				c.words = []string{"but the reply is dropped: connection tracking cannot place the packet"}
			}
			r.goes(w, c)
		}
		d.Stop()
	}
}
