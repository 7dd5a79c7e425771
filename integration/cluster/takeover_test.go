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
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/kubeproxy"
)

// otherPorts are flags of a kube-proxy whose servers use other ports, or none.
var otherPorts = []string{"--healthz-port=0", "--metrics-bind-address=127.0.0.1:20249"}

// fault is a firewall that refuses what the node itself sends to a Service.
const fault = `
table inet fault {
	chain output { type filter hook output priority 0; meta l4proto tcp ct status dnat reject with tcp reset; }
}`

var ours = regexp.MustCompile(`(?ms)^table ip6? kube-vmap .*?^}\n`)

// awaitTheirs waits for kube-proxy's rules of a Service in both families, in any mode.
func (m *move) awaitTheirs(t *testing.T, service string, to traffic.Target) {
	t.Helper()
	clustertest.Must(t, m.theirs.Await(clustertest.Context(t), "kube-proxy's rules of a Service", func() error {
		all := m.node(t, "", "nft", "list", "ruleset")
		for _, program := range iptables {
			all += m.node(t, "", program+"-save")
		}
		rules := linesWith(ours.ReplaceAllString(all, ""), m.ns.Name+"/"+service)
		for _, f := range model.Families {
			addr := to.Addrs[f].String()
			if m.mode == "ipvs" {
				rules, addr = m.servers(t), to.At(f).String()
			}
			if !strings.Contains(rules, addr) {
				return fmt.Errorf("none for %s", addr)
			}
		}
		return nil
	}))
}

// kubeProxy runs the real kube-proxy, and waits for its rules.
func (m *move) kubeProxy(t *testing.T) {
	t.Helper()
	m.startKubeProxy(t, m.program)
	clustertest.Must(t, awaitSync(t, m.theirs, "10249"))
}

// startKubeProxy is kubeProxy without waiting, by a path of the program.
func (m *move) startKubeProxy(t *testing.T, program string, flags ...string) {
	t.Helper()
	m.theirs = clustertest.Start(t, process.Config{Program: program, Host: m.Lab.Node.Host, Args: slices.Concat(m.flags(), flags, []string{
		"--proxy-mode=" + m.mode, "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
	})})
}

// awaitSync waits until a kube-proxy, whose metrics are at the port, has written rules of both
// families. It is healthy before that.
func awaitSync(t *testing.T, d *daemon.Daemon, port string) error {
	t.Helper()
	return d.Await(clustertest.Context(t), "kube-proxy's first sync", func() error {
		_, text, err := d.Get("http://127.0.0.1:" + port + "/metrics")
		if err == nil && len(synced.FindAllString(text, -1)) < len(model.Families) {
			err = errors.New("not all families are written")
		}
		return err
	})
}

// synced is a metric of kube-proxy for a family that it has written.
var synced = regexp.MustCompile(`(?m)^kubeproxy_sync_proxy_rules_duration_seconds_count\S* [1-9]`)

// node runs a program on the node, which must succeed, and returns its output.
func (m *move) node(t *testing.T, stdin, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		labtest.Lacking(t, err)
	}
	cmd := m.Lab.Node.Command(t.Context(), program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

var iptables = []string{"iptables-nft", "ip6tables-nft"}

// left returns the remaining rules of kube-proxy, except KUBE-FIREWALL, which the kubelet
// has, too, and which kube-proxy itself does not remove.
func (m *move) left(t *testing.T) string {
	t.Helper()
	all := linesWith(m.node(t, "", "nft", "list", "tables"), "kube-proxy")
	for _, program := range iptables {
		for line := range strings.Lines(linesWith(m.node(t, "", program+"-save"), "KUBE-")) {
			if !strings.Contains(line, "KUBE-FIREWALL") {
				all += line
			}
		}
	}
	if m.mode == "ipvs" {
		all += m.servers(t) + m.node(t, "", "ipset", "list", "-n") + linesWith(m.node(t, "", "ip", "link"), kubeproxy.IPVSDevice)
	}
	return all
}

// servers returns the virtual servers of IPVS, as ipvsadm saves them.
func (m *move) servers(t *testing.T) string { return m.node(t, "", "ipvsadm", "-S", "-n") }

func linesWith(text, part string) string {
	return strings.Join(slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(line string) bool { return !strings.Contains(line, part) }), "")
}
