package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// packet returns a packet of a pod that serves nothing, from a new port.
func (r *rig) packet(w daemon.Transport, s daemon.Service) simulate.Packet {
	return simulate.Packet{
		From: r.Pods[3].Addr(w.Family), FromPort: r.port(),
		To: s.AddrPort(r.Node, w.Family, model.KindClusterIP, 0), Protocol: w.Protocol,
	}
}

// sendOne sends the packet and returns the name of the host that answered; "" if none did.
func (r *rig) sendOne(p simulate.Packet) string {
	r.t.Helper()
	got, err := r.Pods[3].AskFrom(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To, answer)
	r.must(err)
	return got.By
}

func TestAffinityKeepsTheEndpoint(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: r.servers, Affinity: time.Hour}
	d := r.serve(web)
	for _, w := range transports() {
		p := r.packet(w, web)
		if got := r.explain(p); got.Affinity != nil || len(single(t, got).Endpoints) != len(r.servers) {
			t.Errorf("%s, not remembered: %+v, %+v", p, got.Affinity, got.Outcomes)
		}
		by := r.sendOne(p)
		p.FromPort = r.port()
		got := r.explain(p)
		o := single(t, got)
		if got.Affinity == nil || r.server(got.Affinity.Endpoint.Addr()) != by || got.Affinity.ExpiresSeconds <= 0 || got.Affinity.ExpiresSeconds > 3600 ||
			len(o.Endpoints) != 1 || r.server(o.Endpoints[0].Address) != by || o.Endpoints[0].Probability < 0.999 {
			t.Errorf("%s, remembered with %s: %+v, %+v", p, by, got.Affinity, o)
		}
		r.expectOnly(got.Steps, o.Endpoints[0].Address)
		fewer := web
		fewer.Endpoints = slices.DeleteFunc(slices.Clone(r.servers), func(h *lab.Host) bool { return h.Name == by })
		d.After(func() { r.folder.Put("services", fewer) })
		got = r.explain(p)
		if got.Affinity != nil || len(got.Faults) > 0 || len(single(t, got).Endpoints) != len(fewer.Endpoints) ||
			!slices.ContainsFunc(got.Steps, func(s path.Step) bool { return strings.Contains(s.Text, "is gone") }) {
			t.Errorf("%s, remembered with %s, which is gone: %+v, %q, %+v", p, by, got.Affinity, got.Faults, got.Outcomes)
		}
		d.After(func() { r.folder.Put("services", web) })
	}
}

// expectOnly checks that steps name no other endpoint, neither in a chain nor in a text.
func (r *rig) expectOnly(steps []path.Step, endpoint netip.Addr) {
	r.t.Helper()
	for _, h := range r.servers {
		other := h.Addr(model.FamilyOf(endpoint)).String()
		if other == endpoint.String() {
			continue
		}
		for _, s := range steps {
			if text := s.Chain + " " + s.Text + " " + s.Endpoint; slices.Contains(strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" []", c) }), other) ||
				strings.Contains(text, other+":") || s.Similar > 0 {
				r.t.Errorf("a client that keeps %s meets %+v", endpoint, s)
			}
		}
	}
}

// TestForeignDropsNameTheirTable has a firewall before one endpoint.
func TestForeignDropsNameTheirTable(t *testing.T) {
	r, web := newServing(t, 2)
	r.nft(fmt.Sprintf(`table inet firewall {
		set bad { type ipv4_addr; flags interval; elements = { 10.9.0.0/16, %s/32 }; }
		chain unused { limit rate 1/hour counter; }
		chain checks { ip daddr @bad drop; ip6 daddr { %s } counter drop; meta l4proto icmp accept; }
		chain forward { type filter hook forward priority 10; policy accept; ct state established,related accept; jump checks; }
	}`, r.Pods[0].Addr(model.IPv4), r.Pods[0].Addr(model.IPv6)))
	for _, w := range transports() {
		p := r.packet(w, web)
		got := r.explain(p)
		i := slices.IndexFunc(got.Outcomes, func(o path.Outcome) bool { return o.Verdict == path.VerdictDropped })
		if len(got.Outcomes) != 2 || i < 0 || len(got.Doubts) > 0 {
			t.Fatalf("%s: %+v, doubts %v", p, got.Outcomes, got.Doubts)
		}
		drop, pass := got.Outcomes[i], got.Outcomes[1-i]
		if drop.By.Table != "inet firewall" || drop.By.Chain != "checks" || drop.By.Rule == 0 || drop.Probability != 0.5 {
			t.Errorf("%s: dropped by %+v, probability %v", p, drop.By, drop.Probability)
		}
		if len(pass.Endpoints) != 1 || r.server(pass.Endpoints[0].Address) != "pod-2" {
			t.Errorf("%s: goes to %+v", p, pass.Endpoints)
		}
		r.expect(1, []string{"50%: dropped by table inet firewall, chain checks, rule handle", " drop\n", "50%: goes to one endpoint"},
			"--from="+p.From.String(), to(p.To, p.Protocol))
	}
	r.nft(`flush chain inet firewall checks; add rule inet firewall forward limit rate 1/hour drop`)
	for _, w := range transports() {
		p := r.packet(w, web)
		got := r.explain(p)
		if o := single(t, got); o.Verdict != path.VerdictDelivered || len(o.Endpoints) != 2 {
			t.Errorf("%s: %+v", p, o)
		}
		if len(got.Doubts) != 1 || !strings.HasPrefix(got.Doubts[0].String(), "table inet firewall, chain forward, may decide otherwise") {
			t.Errorf("%s: doubts %q", p, got.Doubts)
		}
		r.expect(exit.Trouble, []string{"may decide otherwise", "limit"}, "--from="+p.From.String(), to(p.To, p.Protocol))
	}
	r.nft(fmt.Sprintf(`flush chain inet firewall forward; table netdev guard { chain out {
		type filter hook egress devices = { %q, %q } priority 0; meta l4proto { tcp, udp, sctp } drop; }; }`, r.Pods[0].Link, r.Pods[1].Link))
	for _, w := range transports() {
		p := r.packet(w, web)
		o := single(t, r.explain(p))
		a, err := r.Pods[3].Ask(w.Protocol, p.To, silence)
		if r.must(err); o.Verdict != path.VerdictDropped || o.By.Table != "netdev guard" || a.Outcome == lab.Answered {
			t.Errorf("%s: %+v, %s", p, o, a)
		}
	}
	r.nft(`delete table netdev guard; add chain inet firewall forward { policy drop; }`)
	for _, w := range transports() {
		p := r.packet(w, web)
		if o := single(t, r.explain(p)); o.Verdict != path.VerdictDropped || o.By.Rule != 0 || o.By.Chain != "forward" {
			t.Errorf("%s: %+v", p, o)
		}
		r.expect(1, []string{"dropped by table inet firewall, chain forward, whose policy it is"}, "--from="+p.From.String(), to(p.To, p.Protocol))
	}
}

// TestDriftIsReported has all connections go to one endpoint, and then go nowhere.
func TestDriftIsReported(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: r.servers[:2]}
	r.serve(web).Stop()
	for _, f := range model.Families {
		family := nft.FamilyName(f)
		for _, p := range model.Protocols {
			r.nft(fmt.Sprintf("delete element %s kube-vmap endpoints-1 { %s . %s . 80 }", family, web.Addr(f, model.KindClusterIP), p))
		}
	}
	for _, w := range transports() {
		got := r.explain(r.packet(w, web))
		if o := single(t, got); o.Verdict != path.VerdictDelivered || len(o.Endpoints) != 1 || len(got.Faults) != 1 || !strings.HasPrefix(got.Faults[0], "endpoints-1 does not have ") {
			t.Errorf("%s: %+v, faults %q", w, got.Outcomes, got.Faults)
		}
		p := r.packet(w, web)
		r.expect(2, []string{"not as kube-vmap writes them", "endpoints-1 does not have", "no kube-vmap answers on"}, "--from="+p.From.String(), to(p.To, p.Protocol))
	}
	r.nft("flush chain ip kube-vmap nat-prerouting; flush chain ip6 kube-vmap nat-prerouting")
	for _, w := range transports() {
		p := r.packet(w, web)
		got := r.explain(p)
		if o := single(t, got); o.Verdict != path.VerdictRefused || len(got.Faults) != 1 || got.Service == "" {
			t.Errorf("%s: %+v, faults %q, service %q", p, o, got.Faults, got.Service)
		}
		if by := r.sendOne(p); by != "" {
			t.Errorf("%s: answered by %s", p, by)
		}
		r.expect(1, []string{"default/web:" + p.Protocol.String() + "-0", "chain nat-prerouting has no rules", "rejected"}, "--from="+p.From.String(), to(p.To, p.Protocol))
	}
}
