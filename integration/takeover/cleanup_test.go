package takeover

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// TestCleanupNeedsRulesThatServeInstead cleans up a node on which kube-proxy's rules are
// suspended, and lead nowhere or serve. No connection is lost at any time, over all
// protocols and both families.
func TestCleanupNeedsRulesThatServeInstead(t *testing.T) {
	t.Parallel()
	for mode, tc := range map[string]struct {
		load func(*probationer)
		edit func(p *probationer, serve bool)
	}{
		"nftables": {(*probationer).loadNFTables, (*probationer).editNFTables},
		"iptables": {(*probationer).loadIPTables, (*probationer).editIPTables},
	} {
		t.Run(mode, func(t *testing.T) {
			p := newProbationer(t)
			tc.load(p)
			p.awaitAnswers()
			p.suspendAlone()
			load := clients.Start(t, p.lab, p.services[:1], clients.Options{Pod: p.lab.Pods[2], Pace: 20 * time.Millisecond, AllFlows: true})
			p.start().Stop()
			tc.edit(p, false)
			p.refuses("with rules that lead nowhere", "kube-proxy's rules do not serve 4 of 4 addresses, such as from this node to default/")
			p.expect("with rules that lead nowhere", true, true, true, "probation until=")
			tc.edit(p, true)
			if out := daemon.Run(t, p.host, "cleanup"); out.ExitCode != 0 {
				t.Errorf("with rules that serve: %s", out)
			}
			p.expect("after the cleanup", true, false, false, "")
			p.start("--probation=1s", "--kube-proxy-marker=never").AwaitMessage(removedMessage)
			load.Stop(t, 100)
		})
	}
}

// TestCleanupWithoutKubeProxyIsRefused has no rules of kube-proxy.
func TestCleanupWithoutKubeProxyIsRefused(t *testing.T) {
	p := newProbationer(t)
	p.start().Stop()
	p.awaitAnswers()
	before := p.listing(nftBackend)
	p.refuses("without rules of kube-proxy", "kube-proxy has no rules for IPv4 here")
	same(t, "listings before and after", counts.ReplaceAllString(p.listing(nftBackend), ""), counts.ReplaceAllString(before, ""))
	p.awaitAnswers()
	if out := daemon.Run(t, p.host, "cleanup", "--force"); out.ExitCode != 0 || !strings.Contains(out.Stderr, "tables removed") {
		t.Errorf("with force: %s", out)
	}
	p.expect("after the cleanup with force", false, false, false, "")
}

// refuses checks that a cleanup is refused, by both of its forms.
func (p *probationer) refuses(when, why string) {
	p.t.Helper()
	for _, form := range []string{"cleanup", "--cleanup"} {
		out := daemon.Run(p.t, p.host, form)
		if out.ExitCode != exit.Refused || !strings.Contains(out.Stderr, why) || !strings.Contains(out.Stderr, "start kube-proxy here") {
			p.t.Errorf("%s: %s", when, out)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

// otherRuns is the message in log and status while another proxy runs.
const otherRuns = "another proxy seems to run; its tables are left untouched until it ends"

// TestRunningProxyIsNotTouched has this process listen on ports of a proxy. One that shows by its
// name, or by what it writes, is in integration/cluster.
func TestRunningProxyIsNotTouched(t *testing.T) {
	n := newOtherProxy(t, nftBackend, func(m *machine) { m.run(nftablesMode(m.t), "nft", "-f", "-") })
	var servers []*lab.Server
	for _, a := range []string{"[::]:10256", "127.0.0.1:10300"} {
		s, err := n.host.ServeAt(model.TCP, netip.MustParseAddrPort(a))
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, s)
	}
	const flag, reason = "--healthz-bind-address=127.0.0.1:10300", "ports [10256 10300] are in use"
	n.startBeside(otherRuns, reason, flag).Stop()
	d := n.startBeside(otherRuns, reason, flag)
	for _, s := range servers {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	d.AwaitMessage("removed what kube-proxy left")
	same(t, "listings before kube-proxy and now", n.foreignListing(), n.others)
	if got := n.problems(); strings.Contains(got, otherRuns) {
		t.Errorf("the problem %q is still reported", got)
	}
}

// legacyLeft is the message while kube-proxy's rules of iptables-legacy exist.
const legacyLeft = "kube-proxy left rules in iptables-legacy, which kube-vmap cannot remove; " +
	`run "kube-proxy --cleanup" on the node, kube-vmap waits for that`

// TestLegacyRulesAreWaitedFor has what a kube-proxy left in iptables-legacy, until something else
// removes it. A kubelet's chains are no reason to wait.
func TestLegacyRulesAreWaitedFor(t *testing.T) {
	var without [len(model.Families)]string
	n := newOtherProxy(t, legacyBackend, func(m *machine) {
		for _, f := range model.Families {
			m.loadIPTables(legacyBackend, f, "*nat\n:KUBE-POSTROUTING -\n:KUBE-MARK-MASQ -\n:KUBE-PROXY-CANARY -\nCOMMIT\n")
			without[f] = m.save(legacyBackend, f)
		}
		m.loadKubeProxy(legacyBackend, "iptables")
	})
	d := n.startBeside(legacyLeft, "chain KUBE-SERVICES in table nat of [IPv4 IPv6]")
	for _, f := range model.Families {
		n.run(without[f], legacyBackend.tool(f, "restore"))
	}
	d.AwaitMessage("the wait for another proxy has ended")
	if got := n.problems(); strings.Contains(got, legacyLeft) {
		t.Errorf("the problem %q is still reported", got)
	}
}

// An otherProxy is a node with rules of kube-proxy and of other programs.
type otherProxy struct {
	*machine
	lab          *lab.Lab
	folder       *daemon.Folder
	backend      backend
	others, both string // listings without and with kube-proxy's rules
	daemons      int
}

func newOtherProxy(t *testing.T, b backend, load func(*machine)) *otherProxy {
	t.Helper()
	t.Parallel()
	l := labtest.New(t, lab.Options{})
	n := &otherProxy{machine: &machine{t, l.Node.Host}, lab: l, folder: daemon.NewFolder(t, l), backend: b}
	n.loadForeign(b)
	n.others = n.foreignListing()
	load(n.machine)
	n.both = n.foreignListing()
	return n
}

var (
	ours   = regexp.MustCompile(`(?ms)^table (ip|ip6) kube-vmap .*?^}\n`)
	counts = regexp.MustCompile(`packets \d+ bytes \d+|\[\d+:\d+\]`)
)

// foreignListing returns the listing without our tables and without counts of packets.
func (n *otherProxy) foreignListing() string {
	n.t.Helper()
	return counts.ReplaceAllString(ours.ReplaceAllString(n.listing(n.backend), ""), "")
}

// startBeside starts the program beside another proxy. It programs its own tables, follows
// changes, and does not touch the other's rules.
func (n *otherProxy) startBeside(text, reason string, flags ...string) *daemon.Daemon {
	n.t.Helper()
	d := daemon.Launch{Node: n.lab.Node, Folder: n.folder, Flags: append(flags, "--probation=0s", "--kube-proxy-marker=never")}.Start(n.t)
	for _, message := range []string{text, "cannot serve, retrying"} {
		d.Ignore(message)
	}
	d.AwaitMessage(text)
	n.daemons++
	d.After(func() { n.folder.Put("web", daemon.Service{Name: "web", Number: n.daemons}) })
	same(n.t, "rules of another proxy", n.foreignListing(), n.both)
	if got := n.problems(); !strings.Contains(got, "Node node-1: "+text+": "+reason) {
		n.t.Errorf("the problems are %q, without the reason %q", got, reason)
	}
	if d.CountMessages("removed what kube-proxy left") > 0 {
		n.t.Error("it removed rules")
	}
	return d
}

// problems returns what "kube-vmap get" reports in addition to Services.
func (n *otherProxy) problems() string {
	n.t.Helper()
	output := daemon.Run(n.t, n.host, "get", "services", "-A", "-o", "wide")
	if output.ExitCode != 0 || !strings.Contains(output.Stdout, "web") {
		n.t.Errorf("get ends with %d:\n%s%s", output.ExitCode, output.Stdout, output.Stderr)
	}
	return output.Stderr
}
