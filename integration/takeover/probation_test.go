package takeover

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kubeproxy"
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
	var nat [len(model.Families)]string
	p.forwards(func(f model.Family, protocol, ip, endpoint string) {
		nat[f] += fmt.Sprintf("%s daddr %s %s dport 80 dnat to %s\n", nft.FamilyName(f), ip, protocol, endpoint)
	})
	for _, f := range model.Families {
		p.run(fmt.Sprintf(`table %s kube-proxy {
			chain their-services { %s }
			chain their-prerouting { type nat hook prerouting priority dstnat; jump their-services; }
			chain their-output { type nat hook output priority -100; jump their-services; }
			chain their-postrouting { type nat hook postrouting priority srcnat; ct status dnat masquerade; }
		}`, nft.FamilyName(f), nat[f]), "nft", "-f", "-")
	}
}

// loadIPTables loads the same as a kube-proxy in iptables mode.
func (p *probationer) loadIPTables(b backend) {
	p.t.Helper()
	var nat [len(model.Families)]string
	p.forwards(func(f model.Family, protocol, ip, endpoint string) {
		nat[f] += fmt.Sprintf("-A KUBE-SERVICES -d %s -p %s -m %[2]s --dport 80 -j DNAT --to-destination %s\n", ip, protocol, endpoint)
	})
	for _, f := range model.Families {
		p.machine.loadIPTables(b, f, "*nat\n:KUBE-SERVICES -\n:KUBE-POSTROUTING -\n"+
			"-I PREROUTING -j KUBE-SERVICES\n-I OUTPUT -j KUBE-SERVICES\n-I POSTROUTING -j KUBE-POSTROUTING\n"+
			nat[f]+"-A KUBE-POSTROUTING -m conntrack --ctstate DNAT -j MASQUERADE\nCOMMIT\n")
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

// awaitProbation waits until the program reports the probation. It has a sample of what works by
// then, without which a fault is none.
func (p *probationer) awaitProbation() {
	p.t.Helper()
	eventually.Holds(p.t, "a report of the probation", func() bool {
		return strings.Contains(p.problems(), "rules are suspended until")
	})
}

// awaitReturn waits, as long as it takes, until the program reports that the node is returned.
// It returns its status.
func (p *probationer) awaitReturn(d *daemon.Daemon) string {
	p.t.Helper()
	if _, err := d.AwaitLog(p.t.Context(), 0, stayMessage, process.Message(stayMessage)); err != nil {
		p.t.Fatal(err)
	}
	out := daemon.Run(p.t, p.host, "status")
	if out.ExitCode != 1 || !strings.Contains(out.Stdout, "take-over   returned: ") || strings.Count(out.Stdout, "PROBLEM") != 1 {
		p.t.Errorf("the status is %s", out)
	}
	return out.Stdout
}

// expect checks what is in the kernel: whether kube-proxy's rules are, and are suspended,
// whether ours are, and what is stored.
func (p *probationer) expect(when string, b backend, theirs, suspended, ours bool, state string) {
	p.t.Helper()
	listing := p.listing(b)
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

// explainFault has explain find the firewall without our rules, for the node itself.
func (p *probationer) explainFault() {
	p.t.Helper()
	for _, f := range model.Families {
		out := daemon.Run(p.t, p.host, "explain", "--from", p.lab.Node.Addr(f).String(), "--to", p.services[1].ClusterAddrPort(f).String())
		if out.ExitCode != 1 || !strings.Contains(out.Stdout, "table inet fault, chain c") {
			p.t.Errorf("explain: %s", out)
		}
	}
}

// TestTakeoverCanBeUndoneAndRepeated has clients connect all the time, over all protocols and
// both families, from kube-proxy's rules to the end of the second probation. The tests with the
// real kube-proxy in integration/cluster do the same in iptables mode.
func TestTakeoverCanBeUndoneAndRepeated(t *testing.T) {
	t.Parallel()
	for mode, tc := range map[string]struct {
		load    func(*probationer)
		backend backend
	}{
		"nftables": {(*probationer).loadNFTables, nftBackend},
		"iptables": {func(p *probationer) { p.loadIPTables(nftBackend) }, nftBackend},
	} {
		t.Run(mode, func(t *testing.T) {
			p := newProbationer(t)
			tc.load(p)
			theirs := counts.ReplaceAllString(p.listing(tc.backend), "")
			p.awaitAnswers()
			p.suspendAlone()
			load := clients.Start(t, p.lab, p.services[:1], clients.Options{Pod: p.lab.Pods[2], Pace: 40 * time.Millisecond, AllFlows: true})

			d := p.start()
			d.AwaitMessage(suspendedMessage)
			p.expect("in the probation", tc.backend, true, true, true, "probation until=")
			p.awaitProbation()
			d.Kill()
			p.expect("after SIGKILL", tc.backend, true, true, true, "probation until=")
			d = p.start()
			p.expect("after a restart", tc.backend, true, true, true, "probation until=")
			p.awaitProbation()
			p.run(p.fault(), "nft", "-f", "-")
			status := p.awaitReturn(d)
			entry := d.Logged(0, returnedMessage, func(process.Entry) bool { return true })
			if !strings.Contains(entry["reason"], "default/kubernetes:p-tcp at ") {
				t.Errorf("the reason is %q", entry["reason"])
			}
			const either = "does not answer through kube-proxy's rules either"
			if !strings.Contains(entry["now"], either) || !strings.Contains(status, either) {
				t.Errorf("after the return, it reports %q and the status\n%s", entry["now"], status)
			}
			p.expect("when returned", tc.backend, true, false, false, "returned at=")
			p.explainFault()
			d.Stop()
			p.run("delete table inet fault", "nft", "-f", "-")
			again := daemon.Launch{Node: p.lab.Node, Folder: p.folder, Problems: true}.Start(t)
			p.awaitReturn(again)
			p.expect("after another start", tc.backend, true, false, false, "returned at=")
			if out := daemon.Run(t, p.host, "problems"); out.ExitCode != 1 || strings.Count(out.Stdout, "Returned") != 1 ||
				strings.Count(out.Stdout, "follow no changes until it runs") != 1 {
				t.Errorf("problems: %s", out)
			}

			if out := daemon.Run(t, p.host, "cleanup"); out.ExitCode != 0 {
				t.Errorf("cleanup: %s", out)
			}
			if err := again.Wait(); err == nil {
				t.Error("after the cleanup, the program ends without an error")
			}
			p.expect("after the cleanup", tc.backend, true, false, false, "")
			same(t, "listings before and after", counts.ReplaceAllString(p.listing(tc.backend), ""), theirs)

			d = p.start("--probation=1s", "--kube-proxy-marker=always")
			d.AwaitMessage(removedMessage)
			p.expect("after the second probation", tc.backend, false, false, true, "")
			if found := p.find(); len(found.Parts) > 0 || len(found.Markers) != len(model.Families) {
				t.Errorf("found %+v", found)
			}
			load.Stop(t, 100)
			d.Stop()
		})
	}
}

// TestNodeIsReturnedAfterStartsWithoutSync stores the number of starts as a process does that
// crashes after it was counted.
func TestNodeIsReturnedAfterStartsWithoutSync(t *testing.T) {
	p := newProbationer(t)
	p.loadNFTables()
	store := func(starts int) {
		const table = "table inet kube-vmap-takeover"
		p.run(fmt.Sprintf("delete %s; add %[1]s { comment \"probation until=%s starts=%d\"; }", table,
			time.Now().Add(time.Minute).UTC().Format(time.RFC3339), starts), "nft", "-f", "-")
	}
	d := p.start()
	d.AwaitMessage(suspendedMessage)
	d.Kill()
	store(4)
	d = p.start()
	eventually.Succeeds(t, "the reset by the first sync", func() error {
		got, err := kubeproxy.ReadTakeoverState(p.host.FD())
		if err == nil && strings.Contains(got, "starts=") {
			err = errors.New(got)
		}
		return err
	})
	p.expect("after the first sync", nftBackend, true, true, true, "probation until=")
	d.Kill()
	store(5)
	d = daemon.Launch{Node: p.lab.Node, Folder: p.folder, Problems: true}.Start(t)
	p.awaitReturn(d)
	entry := d.Logged(0, returnedMessage, func(process.Entry) bool { return true })
	if got := entry["reason"]; got != "kube-vmap ended 5 times before its first sync" {
		t.Errorf("the reason is %q", got)
	}
	p.expect("when returned", nftBackend, true, false, false, "returned at=")
}

// TestMarkerIsLeftWhereCalicoLooksForIt has kube-proxy in nftables mode and in another one.
func TestMarkerIsLeftWhereCalicoLooksForIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode, calico string
		want         bool
	}{{"nftables", "calico", true}, {"nftables", "other", false}, {"iptables", "calico", false}} {
		t.Run(tc.mode+" beside "+tc.calico, func(t *testing.T) {
			p := newProbationer(t)
			if tc.mode == "nftables" {
				p.loadNFTables()
			} else {
				p.loadIPTables(nftBackend)
			}
			p.run("table ip "+tc.calico+" { chain c { }; }", "nft", "-f", "-")
			p.start("--probation=0s").AwaitMessage(removedMessage)
			if found := p.find(); len(found.Parts) > 0 || found.HasMarker(model.IPv4) != tc.want || found.HasMarker(model.IPv6) != tc.want {
				t.Errorf("found %+v", found)
			}
		})
	}
}

// problems returns what "kube-vmap get" reports in addition to Services.
func (p *probationer) problems() string {
	p.t.Helper()
	return daemon.Run(p.t, p.host, "get", "services", "-A", "-o", "wide").Stderr
}
