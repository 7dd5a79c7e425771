package takeover

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

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
