package takeover

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
)

// Messages of the log.
const (
	suspendedMessage = "suspended kube-proxy's rules"
	returnedMessage  = "take-over failed, node returned to kube-proxy"
	stayMessage      = "kube-vmap does nothing on this node"
	removedMessage   = "removed what kube-proxy left"
)

// A probationer is a node that kube-proxy serves, and whose Services clients ask all the
// time.
type probationer struct {
	*machine
	lab      *lab.Lab
	folder   *daemon.Folder
	services []daemon.Service
}

// silence is how long there must be no answer.
const silence = 100 * time.Millisecond

// kubernetesPort is the port of the endpoints of the Service that the tests make fail.
const kubernetesPort = daemon.TargetPort + 1

func newProbationer(t *testing.T) *probationer {
	t.Helper()
	t.Parallel()
	l := labtest.New(t, lab.Options{Pods: 3})
	daemon.AddClients(t, l)
	daemon.RouteServices(t, l, l.Node)
	servers := daemon.Serve(t, 2, l.Pods[:2]...)
	p := &probationer{
		machine: &machine{t, l.Node.Host}, lab: l, folder: daemon.NewFolder(t, l),
		services: []daemon.Service{
			{Name: "web", Number: 1, Endpoints: servers[:1]},
			{Name: "kubernetes", Number: 2, Endpoints: servers[1:], ServicePorts: daemon.EveryProtocol("p-", daemon.Port, kubernetesPort, 0)},
		},
	}
	for _, s := range p.services {
		p.folder.Put(s.Name, s)
	}
	return p
}

// forwards calls fn with each ClusterIP and its endpoint, as "192.0.2.1" and
// "192.0.2.1:80" or "[2001:db8::1]:80".
func (p *probationer) forwards(fn func(f model.Family, protocol, ip, endpoint string)) {
	for _, f := range model.Families {
		for _, s := range p.services {
			target := uint16(daemon.TargetPort)
			if s.ServicePorts != nil {
				target = kubernetesPort
			}
			for _, protocol := range model.Protocols {
				fn(f, protocol.String(), s.ClusterAddrPort(f).Addr().String(), s.Endpoints[0].AddrPort(f, target).String())
			}
		}
	}
}

// loadNFTables loads rules as simple as possible that serve like a kube-proxy in nftables
// mode.
func (p *probationer) loadNFTables() {
	p.t.Helper()
	for _, f := range model.Families {
		p.run(fmt.Sprintf(`table %s kube-proxy {
			chain their-services { }
			chain their-prerouting { type nat hook prerouting priority dstnat; jump their-services; }
			chain their-output { type nat hook output priority -100; jump their-services; }
			chain their-postrouting { type nat hook postrouting priority srcnat; ct status dnat masquerade; }
		}`, nft.FamilyName(f)), "nft", "-f", "-")
	}
	p.editNFTables(true)
}

// editNFTables replaces the rules of all addresses. Without serve they lead to a port on which nothing
// listens.
func (p *probationer) editNFTables(serve bool) {
	p.t.Helper()
	text := "flush chain ip kube-proxy their-services\nflush chain ip6 kube-proxy their-services\n"
	p.forwards(func(f model.Family, protocol, ip, endpoint string) {
		if !serve {
			endpoint = netip.AddrPortFrom(netip.MustParseAddrPort(endpoint).Addr(), 9).String()
		}
		text += fmt.Sprintf("add rule %s kube-proxy their-services %[1]s daddr %s %s dport 80 dnat to %s\n",
			nft.FamilyName(f), ip, protocol, endpoint)
	})
	p.run(text, "nft", "-f", "-")
}

// loadIPTables loads the same as a kube-proxy in iptables mode.
func (p *probationer) loadIPTables() {
	p.t.Helper()
	for _, f := range model.Families {
		p.machine.loadIPTables(nftBackend, f, "*nat\n:KUBE-SERVICES -\n:KUBE-POSTROUTING -\n"+
			"-I PREROUTING -j KUBE-SERVICES\n-I OUTPUT -j KUBE-SERVICES\n-I POSTROUTING -j KUBE-POSTROUTING\n"+
			"-A KUBE-POSTROUTING -m conntrack --ctstate DNAT -j MASQUERADE\nCOMMIT\n")
	}
	p.editIPTables(true)
}

// editIPTables adds the rules of all addresses, or deletes them.
func (p *probationer) editIPTables(serve bool) {
	p.t.Helper()
	verb := map[bool]string{true: "-A", false: "-D"}[serve]
	var nat [len(model.Families)]string
	p.forwards(func(f model.Family, protocol, ip, endpoint string) {
		nat[f] += fmt.Sprintf("%s KUBE-SERVICES -d %s -p %s -m %[3]s --dport 80 -j DNAT --to-destination %s\n", verb, ip, protocol, endpoint)
	})
	for _, f := range model.Families {
		p.machine.loadIPTables(nftBackend, f, "*nat\n"+nat[f]+"COMMIT\n")
	}
}

// awaitAnswers waits until kube-proxy's rules serve every client: the first packet between two
// hosts may be lost while they look for each other.
func (p *probationer) awaitAnswers() {
	p.t.Helper()
	for _, w := range daemon.Transports() {
		for _, from := range []*lab.Host{p.lab.Pods[2].Host, p.lab.Node.Host, p.lab.Outside} {
			eventually.Succeeds(p.t, fmt.Sprintf("an answer to %s over %s", from, w), func() error {
				a, err := from.AskFresh(w.Protocol, netip.Addr{}, p.services[0].ClusterAddrPort(w.Family), time.Second)
				if err == nil && a.Outcome != lab.Answered {
					err = errors.New(a.String())
				}
				return err
			})
		}
	}
}

// suspendAlone checks that suspended rules translate nothing.
func (p *probationer) suspendAlone() {
	p.t.Helper()
	p.apply(p.find().Suspend())
	for _, w := range daemon.Transports() {
		for _, from := range []*lab.Host{p.lab.Pods[2].Host, p.lab.Node.Host, p.lab.Outside} {
			a, err := from.AskFresh(w.Protocol, netip.Addr{}, p.services[0].ClusterAddrPort(w.Family), silence)
			if err != nil || a.Outcome == lab.Answered {
				p.t.Errorf("suspended: %s from %s: %s, %v", w, from, a, err)
			}
		}
	}
	p.apply(p.find().Resume())
	p.awaitAnswers()
}

// start starts the program and waits until it has programmed everything.
func (p *probationer) start(flags ...string) *daemon.Daemon {
	p.t.Helper()
	d := daemon.Launch{Node: p.lab.Node, Folder: p.folder, Flags: flags, Problems: true}.Start(p.t)
	d.AwaitMessage("ready")
	return d
}

// awaitReturn waits, as long as it takes, until the program reports that the node is returned.
// It returns why.
func (p *probationer) awaitReturn(d *daemon.Daemon) string {
	p.t.Helper()
	if _, err := d.AwaitLog(p.t.Context(), 0, stayMessage, process.Message(stayMessage)); err != nil {
		p.t.Fatal(err)
	}
	out := daemon.Run(p.t, p.host, "status")
	if out.ExitCode != 1 || !strings.Contains(out.Stdout, "TAKE-OVER   returned\n") || strings.Count(out.Stdout, "PROBLEM") != 1 {
		p.t.Errorf("the status is %s", out)
	}
	if out := daemon.Run(p.t, p.host, "problems"); out.ExitCode != 1 || strings.Count(out.Stdout, "Returned") != 1 || !strings.Contains(out.Stdout, ": 1 problem, ") {
		p.t.Errorf("problems: %s", out)
	}
	for probe, fails := range map[string]bool{"livez": false, "readyz": true, "healthz": true} {
		body, err := p.host.Get("http://127.0.0.1:10256/"+probe, eventually.Timeout)
		_, reason, failed := strings.Cut(body, `"reason":"`)
		if err != nil || failed != fails || failed && !strings.HasPrefix(reason, "this node was returned to kube-proxy") {
			p.t.Errorf("%s: %s, %v", probe, body, err)
		}
	}
	return d.Logged(0, returnedMessage, func(process.Entry) bool { return true })["reason"]
}

// expect checks what is in the kernel: whether kube-proxy's rules are, and are suspended,
// whether ours are, and what is stored.
func (p *probationer) expect(when string, theirs, suspended, ours bool, state string) {
	p.t.Helper()
	listing := p.listing(nftBackend)
	if has := strings.Contains(listing, "KUBE-SERVICES") || strings.Contains(listing, "their-services"); has != theirs {
		p.t.Errorf("%s: kube-proxy's rules exist: %t", when, has)
	}
	if are := strings.Contains(listing, kubeproxy.SuspendComment); are != suspended {
		p.t.Errorf("%s: kube-proxy's rules are suspended: %t", when, are)
	}
	if has := strings.Contains(p.run("", "nft", "list", "tables"), "table ip kube-vmap\n"); has != ours {
		p.t.Errorf("%s: our table exists: %t", when, has)
	}
	got, err := kubeproxy.ReadTakeoverState(p.host.FD())
	if err != nil || !strings.HasPrefix(got, state) || state == "" && got != "" {
		p.t.Errorf("%s: the state is %q, %v; want %q", when, got, err, state)
	}
}

// fault is a firewall that refuses connections to the Service kubernetes, and no others to its
// endpoint.
func (p *probationer) fault() string {
	text := "table inet fault { chain c { type filter hook output priority 0;\n"
	for _, f := range model.Families {
		text += fmt.Sprintf("ct original %s daddr %s tcp dport %d reject with tcp reset\n", nft.FamilyName(f), p.services[1].ClusterAddrPort(f).Addr(), kubernetesPort)
	}
	return text + "}\n}"
}

// TestNodeIsReturnedAfterStartsWithoutSync stores the number of starts as a process does that
// crashes after it was counted. The process that stays yields its ports to a kube-proxy that writes.
func TestNodeIsReturnedAfterStartsWithoutSync(t *testing.T) {
	p := newProbationer(t)
	p.loadNFTables()
	d := p.start()
	d.AwaitMessage(suspendedMessage)
	d.Kill()
	p.run(fmt.Sprintf(`delete table inet kube-vmap-takeover; add table inet kube-vmap-takeover { comment "probation until=%s starts=5"; }`,
		time.Now().Add(time.Minute).UTC().Format(time.RFC3339)), "nft", "-f", "-")
	d = daemon.Launch{Node: p.lab.Node, Folder: p.folder, Problems: true}.Start(t)
	if reason := p.awaitReturn(d); reason != "kube-vmap ended 5 times before its first sync" {
		t.Errorf("the reason is %q", reason)
	}
	p.expect("when returned", true, false, false, "returned at=")
	p.run("add chain ip kube-proxy more", "nft", "-f", "-")
	for _, port := range []string{"127.0.0.1:10249", "[::]:10256"} {
		eventually.Succeeds(t, port+" is free", func() error {
			_, err := p.host.ServeAt(model.TCP, netip.MustParseAddrPort(port))
			return err
		})
	}
}

// TestMarkerIsLeftWhereCalicoLooksForIt has kube-proxy in nftables mode and in another one.
func TestMarkerIsLeftWhereCalicoLooksForIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		load         func(*probationer)
		calico, flag string
		want         bool
	}{
		"nftables beside calico": {(*probationer).loadNFTables, "calico", "auto", true},
		"nftables beside other":  {(*probationer).loadNFTables, "other", "auto", false},
		"iptables beside calico": {(*probationer).loadIPTables, "calico", "auto", false},
		"always":                 {(*probationer).loadIPTables, "other", "always", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProbationer(t)
			tc.load(p)
			p.run("table ip "+tc.calico+" { chain c { }; }", "nft", "-f", "-")
			p.start("--probation=0s", "--kube-proxy-marker="+tc.flag).AwaitMessage(removedMessage)
			if found := p.find(); len(found.Parts) > 0 || slices.Contains(found.Markers, model.IPv4) != tc.want || slices.Contains(found.Markers, model.IPv6) != tc.want {
				t.Errorf("found %+v", found)
			}
		})
	}
}
