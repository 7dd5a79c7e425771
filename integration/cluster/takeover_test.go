package cluster_test

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/daemon"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
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

var counted = regexp.MustCompile(`packets \d+ bytes \d+|\[\d+:\d+\]`)

// rulesOf returns kube-proxy's rules for a Service, in either mode, without packet counts.
func (c *oneNode) rulesOf(t *testing.T, service string) string {
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

// fault is a firewall that refuses what the node itself sends to a Service.
const fault = `
table inet fault {
	chain output { type filter hook output priority 0; meta l4proto tcp ct status dnat reject with tcp reset; }
}`

// awaitTheirs waits for kube-proxy's rules of a Service in both families.
func (c *oneNode) awaitTheirs(t *testing.T, theirs *daemon.Daemon, service string, to traffic.Target) {
	t.Helper()
	clustertest.Must(t, theirs.Await(clustertest.Context(t), "kube-proxy's rules of a Service", func() error {
		rules := c.rulesOf(t, service)
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
	clustertest.Must(t, awaitSync(t, d))
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

// awaitSync waits until a kube-proxy has written rules of both families. It is healthy before
// that.
func awaitSync(t *testing.T, d *daemon.Daemon) error {
	t.Helper()
	return d.Await(clustertest.Context(t), "kube-proxy's first sync", func() error {
		var err error
		for _, port := range []string{"10249", "20249"} { // the usual one, or that of otherPorts
			var text string
			if _, text, err = d.Get("http://127.0.0.1:" + port + "/metrics"); err != nil {
				continue
			}
			if n := len(synced.FindAllString(text, -1)); n >= len(model.Families) {
				return nil
			}
			err = errors.New("not all families are written")
		}
		return err
	})
}

// synced is a metric of kube-proxy for a family that it has written.
var synced = regexp.MustCompile(`(?m)^kubeproxy_sync_proxy_rules_duration_seconds_count\S* [1-9]`)

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
