package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/daemon"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kubeproxy"
)

// foreign is another program's rule set in nftables.
const foreign = `
table inet others {
	set seen { type ipv4_addr; elements = { 192.0.2.7 }; }
	chain services { ip saddr @seen accept; }
	chain prerouting { type filter hook prerouting priority -150; jump services; }
}`

// foreignIPTables are other programs' iptables rules, in tables that kube-proxy uses.
const foreignIPTables = `*nat
:OTHERS - [0:0]
-A PREROUTING -p tcp --dport 9 -j OTHERS
-A OTHERS -j RETURN
COMMIT
*filter
:OTHERS - [0:0]
-A FORWARD -p tcp --dport 9 -j OTHERS
COMMIT
*mangle
:OTHERS - [0:0]
-A POSTROUTING -p tcp --dport 9 -j OTHERS
COMMIT
`

// TestMigrationFromKubeProxyAndBackLosesNoPacket has clients ask all the time, from
// before the first step to after the last.
func TestMigrationFromKubeProxyAndBackLosesNoPacket(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name    string
		removed []string // by the log
	}{
		{"nftables", []string{"table ip kube-proxy", "table ip6 kube-proxy"}},
		{"iptables", []string{"ip nat: ", "ip filter: ", "ip mangle: ", "ip6 nat: ", "ip6 filter: ", "ip6 mangle: ", "KUBE-SERVICES", "KUBE-SEP-"}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			c := newOneNode(t, 2)
			to := c.manualService(t, "web", c.Lab.Pods[0], c.Lab.Pods[1])
			kubeconfig := c.Kubeconfig(t, c.Server)
			c.loadForeign(t)
			before := c.foreign(t)

			theirs := c.kubeProxy(t, mode.name, kubeconfig)
			crowd := traffic.Start(c.clients...)
			asked := crowd.Add(to)
			clustertest.Must(t, asked.Await(clustertest.Context(t)))

			theirs.Kill() // it does not end on its own
			c.runProxy(t, kubeconfig, "--probation=1s")
			clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
			_, err := c.proxy.AwaitLog(clustertest.Context(t), 0, "the suspension", process.Message(suspended))
			clustertest.Must(t, err)
			logged, err := c.proxy.AwaitLog(clustertest.Context(t), 0, "what was removed", process.Message("removed what kube-proxy left"))
			clustertest.Must(t, err)
			for _, what := range mode.removed {
				if !strings.Contains(logged["removed"], what) {
					t.Errorf("it logs that it removed %s, without %s", logged["removed"], what)
				}
			}
			c.proxy.AwaitTruth(t)
			if left := c.left(t); left != "" {
				t.Errorf("left is\n%s", left)
			}
			if after := c.foreign(t); after != before {
				t.Errorf("others have\n%s\nand had\n%s", after, before)
			}
			checkAnswered(t, c.clients, to, "pod-1", "pod-2")

			clustertest.Must(t, c.proxy.Stop())
			c.kubeProxy(t, mode.name, kubeconfig)
			clustertest.Must(t, ended(c.Run(t, c.Lab.Node, process.Config{Args: []string{"--cleanup"}}), clustertest.Patience))
			if tables, err := truth.Read(c.Lab.Node.Host); err != nil || tables != (nft.Tables{}) {
				t.Errorf("ours is still there, %v", err)
			}
			checkAnswered(t, c.clients, to, "pod-1", "pod-2")
			if after := c.foreign(t); after != before {
				t.Errorf("in the end others have\n%s\nand had\n%s", after, before)
			}
			asked.Remove()
			questions, err := crowd.Stop()
			t.Logf("%d questions", questions)
			clustertest.Must(t, err)
		})
	}
}

// Messages of the log.
const (
	suspended = "suspended kube-proxy's rules"
	otherRuns = "another proxy seems to run; its tables are left untouched until it ends"
)

// TestRunningKubeProxyIsLeftAlone runs kube-vmap while kube-proxy runs as a process of the
// host. Both follow changes, and no packet is lost.
func TestRunningKubeProxyIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newOneNode(t, 2)
			to := c.manualService(t, "web", c.Lab.Pods[0], c.Lab.Pods[1])
			kubeconfig := c.Kubeconfig(t, c.Server)
			theirs := c.kubeProxy(t, mode, kubeconfig)
			rules := c.theirs(t, "web")
			crowd := traffic.Start(c.clients...)
			asked := crowd.Add(to)
			clustertest.Must(t, asked.Await(clustertest.Context(t)))

			c.runProxy(t, kubeconfig, "--probation=1s")
			_, err := c.proxy.AwaitLog(clustertest.Context(t), 0, "the other proxy", process.Message(otherRuns))
			clustertest.Must(t, err)
			c.event(t, "OtherProxy", func(e *eventsv1.Event) bool {
				return e.Regarding.Name == c.NodeName(c.Lab.Node) && strings.Contains(e.Note, "ports [10249 10256] are in use")
			})
			c.proxy.AwaitTruth(t)
			if now := c.theirs(t, "web"); now != rules || now == "" {
				t.Errorf("kube-proxy's rules are\n%s\nand were\n%s", now, rules)
			}
			more := c.manualService(t, "more", c.Lab.Pods[1])
			c.proxy.AwaitTruth(t)
			c.awaitTheirs(t, theirs, "more", more)
			checkAnswered(t, c.clients, more, "pod-2")
			checkAnswered(t, c.clients, to, "pod-1", "pod-2")

			theirs.Kill()
			_, err = c.proxy.AwaitLog(clustertest.Context(t), 0, "the removal", process.Message("removed what kube-proxy left"))
			clustertest.Must(t, err)
			if left := c.left(t); left != "" {
				t.Errorf("left is\n%s", left)
			}
			clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
			checkAnswered(t, c.clients, more, "pod-2")
			asked.Remove()
			questions, err := crowd.Stop()
			t.Logf("%d questions", questions)
			clustertest.Must(t, err)
		})
	}
}

var counted = regexp.MustCompile(`packets \d+ bytes \d+|\[\d+:\d+\]`)

// theirs returns kube-proxy's rules for a Service, in either mode, without packet counts.
func (c *oneNode) theirs(t *testing.T, service string) string {
	t.Helper()
	all := c.node(t, "", "nft", "-a", "list", "ruleset")
	for _, program := range iptables {
		all += c.node(t, "", program+"-save")
	}
	ours := regexp.MustCompile(`(?ms)^table ip6? kube-vmap .*?^}\n`)
	return counted.ReplaceAllString(linesWith(ours.ReplaceAllString(all, ""), c.ns.Name+"/"+service), "")
}

// otherPorts are flags of a kube-proxy whose servers use other ports, or none.
var otherPorts = []string{"--healthz-port=0", "--metrics-bind-address=127.0.0.1:20249"}

// TestKubeProxyWithOtherPortsIsLeftAlone runs kube-vmap while a kube-proxy runs that only
// shows by the name of its process.
func TestKubeProxyWithOtherPortsIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 2)
	to := c.manualService(t, "web", c.Lab.Pods[0], c.Lab.Pods[1])
	kubeconfig := c.Kubeconfig(t, c.Server)
	program, err := plane.Program("kube-proxy")
	clustertest.Must(t, err)
	theirs := c.startKubeProxy(t, program, "nftables", kubeconfig, otherPorts...)
	c.awaitTheirs(t, theirs, "web", to)
	rules := c.theirs(t, "web")
	c.runProxy(t, kubeconfig, "--probation=1s")
	entry, err := c.proxy.AwaitLog(clustertest.Context(t), 0, "the other proxy", process.Message(otherRuns))
	clustertest.Must(t, err)
	if want := fmt.Sprintf("process %d is a kube-proxy", theirs.PID()); entry["reason"] != want {
		t.Errorf("the reason is %q, want %q", entry["reason"], want)
	}
	c.proxy.AwaitTruth(t)
	if now := c.theirs(t, "web"); now != rules {
		t.Errorf("kube-proxy's rules are\n%s\nand were\n%s", now, rules)
	}
}

// TestHiddenKubeProxyIsLeftAloneWhenItWrites runs kube-vmap while a kube-proxy runs that
// cannot be seen, as in a container with other ports. When it writes rules, these are
// resumed and stay, and no packet is lost.
func TestHiddenKubeProxyIsLeftAloneWhenItWrites(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newOneNode(t, 2)
			to := c.manualService(t, "web", c.Lab.Pods[0], c.Lab.Pods[1])
			kubeconfig := c.Kubeconfig(t, c.Server)
			program, err := plane.Program("kube-proxy")
			clustertest.Must(t, err)
			hidden := filepath.Join(t.TempDir(), "hidden")
			clustertest.Must(t, os.Symlink(program, hidden))
			theirs := c.startKubeProxy(t, hidden, mode, kubeconfig, otherPorts...)
			c.awaitTheirs(t, theirs, "web", to)
			crowd := traffic.Start(c.clients...)
			asked := crowd.Add(to)
			clustertest.Must(t, asked.Await(clustertest.Context(t)))

			c.runProxy(t, kubeconfig)
			_, err = c.proxy.AwaitLog(clustertest.Context(t), 0, "the suspension", process.Message(suspended))
			clustertest.Must(t, err)
			more := c.manualService(t, "more", c.Lab.Pods[1])
			entry, err := c.proxy.AwaitLog(clustertest.Context(t), 0, "the other proxy", process.Message(otherRuns))
			clustertest.Must(t, err)
			if entry["reason"] != "it writes rules" {
				t.Errorf("the reason is %q", entry["reason"])
			}
			c.awaitTheirs(t, theirs, "more", more)
			if left := linesWith(c.node(t, "", "nft", "list", "ruleset"), kubeproxy.SuspendComment); left != "" {
				t.Errorf("still suspended:\n%s", left)
			}
			c.proxy.AwaitTruth(t)
			checkAnswered(t, c.clients, more, "pod-2")
			asked.Remove()
			questions, err := crowd.Stop()
			t.Logf("%d questions", questions)
			clustertest.Must(t, err)
		})
	}
}

// fault is a firewall that refuses what the node itself sends to a Service.
const fault = `
table inet fault {
	chain output { type filter hook output priority 0; meta l4proto tcp ct status dnat reject with tcp reset; }
}`

// awaitTheirs waits for kube-proxy's rules of a Service in both families.
func (c *oneNode) awaitTheirs(t *testing.T, theirs *daemon.Daemon, service string, to traffic.Target) {
	t.Helper()
	clustertest.Must(t, theirs.Await(clustertest.Context(t), "kube-proxy's rules of a Service", func() error {
		rules := c.theirs(t, service)
		for _, addr := range to.Addrs {
			if !strings.Contains(rules, addr.String()) {
				return fmt.Errorf("none for %s", addr)
			}
		}
		return nil
	}))
}

// kubeProxy runs the real kube-proxy, and waits for its rules.
func (c *oneNode) kubeProxy(t *testing.T, mode, kubeconfig string) *daemon.Daemon {
	t.Helper()
	program, err := plane.Program("kube-proxy")
	clustertest.Must(t, err)
	d := c.startKubeProxy(t, program, mode, kubeconfig)
	awaitKubeProxy(t, d)
	return d
}

// startKubeProxy is kubeProxy without waiting.
func (c *oneNode) startKubeProxy(t *testing.T, program, mode, kubeconfig string, flags ...string) *daemon.Daemon {
	t.Helper()
	return clustertest.Start(t, process.Config{Program: program, Host: c.Lab.Node.Host, Args: append([]string{
		"--proxy-mode=" + mode, "--kubeconfig=" + kubeconfig, "--hostname-override=" + c.NodeName(c.Lab.Node),
		"--cluster-cidr=" + truth.PodRanges, "--conntrack-max-per-core=0",
		"--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
	}, flags...)})
}

// awaitKubeProxy waits until kube-proxy has written rules of both families. It is
// healthy before that.
func awaitKubeProxy(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	ctx := clustertest.Context(t)
	clustertest.Must(t, d.AwaitHealthy(ctx))
	clustertest.Must(t, d.Await(ctx, "rules of both families", func() error {
		families, err := d.Metrics()
		if err != nil {
			return err
		}
		written := 0
		for _, m := range families["kubeproxy_sync_proxy_rules_duration_seconds"].GetMetric() {
			if m.GetHistogram().GetSampleCount() > 0 {
				written++
			}
		}
		if written < len(model.Families) {
			return fmt.Errorf("%d families written", written)
		}
		return nil
	}))
}

// node runs a program on the node, which must succeed, and returns its output.
func (c *oneNode) node(t *testing.T, stdin, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		labtest.Lacking(t, err)
	}
	cmd := c.Lab.Node.Command(t.Context(), program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

var iptables = []string{"iptables-nft", "ip6tables-nft"}

func (c *oneNode) loadForeign(t *testing.T) {
	t.Helper()
	c.node(t, foreign, "nft", "-f", "-")
	for _, program := range iptables {
		c.node(t, foreignIPTables, program+"-restore", "--noflush")
	}
}

// foreign returns the current rules of other programs.
func (c *oneNode) foreign(t *testing.T) string {
	t.Helper()
	all := c.node(t, "", "nft", "list", "table", "inet", "others")
	for _, program := range iptables {
		all += linesWith(c.node(t, "", program+"-save"), "OTHERS")
	}
	return all
}

// left returns the remaining rules of kube-proxy, except KUBE-FIREWALL, which the kubelet
// has, too, and which kube-proxy itself does not remove.
func (c *oneNode) left(t *testing.T) string {
	t.Helper()
	all := linesWith(c.node(t, "", "nft", "list", "tables"), "kube-proxy")
	for _, program := range iptables {
		for line := range strings.Lines(linesWith(c.node(t, "", program+"-save"), "KUBE-")) {
			if !strings.Contains(line, "KUBE-FIREWALL") {
				all += line
			}
		}
	}
	return all
}

func linesWith(text, part string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(line string) bool { return !strings.Contains(line, part) })
	slices.Sort(lines) // a full sync of kube-proxy writes the rules of a chain in another order
	return strings.Join(lines, "")
}
