package takeover

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/kubeproxy"
)

// addIPSets adds all ipsets of kube-proxy's ipvs mode, empty, and some of other programs. Their
// types are only as close to kube-proxy's as its rules require.
func (m *machine) addIPSets() {
	m.t.Helper()
	out, err := m.host.Command(m.t.Context(), labtest.Path(m.t, "ipset"), "list", "-n").CombinedOutput()
	if err != nil {
		labtest.Lacking(m.t, fmt.Errorf("the kernel lacks ipsets: %w: %s", err, out))
	}
	text := ""
	for _, name := range append(kubeproxy.IPSetNames(), foreignIPSets...) {
		kind := "hash:ip,port"
		switch {
		case strings.HasSuffix(name, "LOOP-BACK"):
			kind = "hash:ip,port,ip"
		case strings.HasSuffix(name, "IPVS-IPS"):
			kind = "hash:ip"
		}
		if strings.HasPrefix(name, "KUBE-6-") {
			kind += " family inet6"
		}
		if strings.HasSuffix(name, "-TCP") || strings.HasSuffix(name, "-UDP") || strings.HasSuffix(name, "HEALTH-CHECK-NODE-PORT") {
			kind = "bitmap:port range 0-65535"
		}
		text += fmt.Sprintf("create %s %s\n", name, kind)
	}
	m.run(text, "ipset", "restore")
}

// foreignIPSets are ipsets of other programs, with names similar to kube-proxy's, sorted.
var foreignIPSets = []string{"KUBE-CLUSTER-IP-2", "KUBE-MINE", "MY-KUBE-CLUSTER-IP", "kube-router-node-ips"}

func (m *machine) ipsets() []string {
	m.t.Helper()
	return slices.Sorted(slices.Values(strings.Fields(m.run("", "ipset", "list", "-n"))))
}

// TestIPSetsAreRemovedAfterTheirRules has a device of kube-proxy's name that is no dummy, so that
// the rules are removed alone, and then a rule that uses a set.
func TestIPSetsAreRemovedAfterTheirRules(t *testing.T) {
	m := newMachine(t)
	m.addIPSets()
	m.loadKubeProxy(nftBackend, "ipvs")
	m.run("", "ip", "link", "add", kubeproxy.IPVSDevice, "type", "veth", "peer", "name", "other")
	m.remove()
	m.run("", "ip", "link", "show", kubeproxy.IPVSDevice)
	if names := m.ipsets(); len(names) != len(kubeproxy.IPSetNames())+len(foreignIPSets) {
		t.Errorf("left are only the sets %v", names)
	}
	rule := []string{"FORWARD", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "ACCEPT"}
	m.run("", "iptables-nft", append([]string{"-A"}, rule...)...)
	removed, err := kubeproxy.RemoveIPSets(m.host.FD())
	if err == nil || !strings.Contains(err.Error(), "KUBE-CLUSTER-IP") || len(removed) != len(kubeproxy.IPSetNames())-1 {
		t.Errorf("removed %v, error %v", removed, err)
	}
	m.run("", "iptables-nft", append([]string{"-D"}, rule...)...)
	for _, want := range [][]string{{"KUBE-CLUSTER-IP"}, nil} {
		if removed, err := kubeproxy.RemoveIPSets(m.host.FD()); err != nil || !slices.Equal(removed, want) {
			t.Errorf("removed sets %v, error %v, want %v", removed, err, want)
		}
	}
	if got := m.ipsets(); !slices.Equal(got, foreignIPSets) {
		t.Errorf("left are the sets %v, want %v", got, foreignIPSets)
	}
}

func TestIPVSLeftoversAreRemovedWithTheDevice(t *testing.T) {
	m := newMachine(t)
	if out, err := m.host.Command(t.Context(), "ip", "link", "add", kubeproxy.IPVSDevice, "type", "dummy").CombinedOutput(); err != nil {
		t.Skipf("a dummy device cannot be had here: %v: %s", err, out)
	}
	m.addIPSets()
	m.loadKubeProxy(nftBackend, "ipvs")
	removed := strings.Join(m.remove(), "\n")
	for _, what := range []string{"device " + kubeproxy.IPVSDevice, "KUBE-6-CLUSTER-IP", "ip6 nat: jumps (3), "} {
		if !strings.Contains(removed, what) {
			t.Errorf("removed\n%s\nwithout %q", removed, what)
		}
	}
	if links := m.run("", "ip", "link", "show"); strings.Contains(links, kubeproxy.IPVSDevice) {
		t.Errorf("%s still exists", kubeproxy.IPVSDevice)
	}
	if got := m.ipsets(); !slices.Equal(got, foreignIPSets) {
		t.Errorf("left are the sets %v", got)
	}
	m.expectNothingToRemove()
}

// TestTakeoverFromIPVSCanBeUndone runs the program: a probation that fails, while clients
// connect all the time, and one that passes.
func TestTakeoverFromIPVSCanBeUndone(t *testing.T) {
	if os.Getenv("KUBE_VMAP_OWN_MACHINE") == "" {
		t.Skip("SKIPPED, NOTHING TESTED: this needs IPVS, and a machine of its own; `make test-kernels` has some")
	}
	p := newProbationer(t)
	p.addIPVS()
	theirs := counts.ReplaceAllString(p.listing(nftBackend)+p.servers(), "")
	load := clients.Start(t, p.lab, p.services[:1], clients.Options{Pod: p.lab.Pods[2], Pace: 20 * time.Millisecond, AllFlows: true})
	d := p.start()
	d.AwaitMessage(suspendedMessage)
	p.expect("in the probation", true, true, true, "probation until=")
	p.run(p.fault(), "nft", "-f", "-")
	p.awaitReturn(d)
	p.expect("when returned", true, false, false, "returned at=")
	p.run("delete table inet fault", "nft", "-f", "-")
	d.Stop()
	if out := daemon.Run(t, p.host, "cleanup"); out.ExitCode != 0 {
		t.Errorf("cleanup: %s", out)
	}
	same(t, "rules and virtual servers before and after", counts.ReplaceAllString(p.listing(nftBackend)+p.servers(), ""), theirs)
	load.Stop(t, 100)

	d = p.start("--probation=1s", "--kube-proxy-marker=never")
	d.AwaitMessage(removedMessage)
	if found := p.find(); len(found.Parts) > 0 || found.IPVS || p.servers() != "" {
		t.Errorf("left are %+v and the virtual servers\n%s", found, p.servers())
	}
	d.Stop()
}

// servers returns the virtual servers, as ipvsadm saves them.
func (m *machine) servers() string {
	m.t.Helper()
	return m.run("", "ipvsadm", "-S", "-n")
}

// addIPVS sets up what kube-proxy's ipvs mode has for the Services
// (pkg/proxy/ipvs/proxier.go of Kubernetes 1.36).
func (p *probationer) addIPVS() {
	p.t.Helper()
	p.addIPSets()
	p.run("", "ip", "link", "add", kubeproxy.IPVSDevice, "type", "dummy")
	p.run("", "ip", "link", "set", kubeproxy.IPVSDevice, "up")
	p.run("", "ipvsadm", "-C") // loads the module
	p.run(`set -e; cd /proc/sys/net/ipv4
		echo 1 >vs/conntrack; echo 0 >vs/conn_reuse_mode; echo 1 >vs/expire_nodest_conn; echo 1 >vs/expire_quiescent_template
		echo 1 >conf/all/arp_ignore; echo 2 >conf/all/arp_announce`, "sh")
	p.forwards(func(f model.Family, protocol, ip, endpoint string) {
		if protocol == model.TCP.String() {
			p.run("", "ip", "address", "add", ip, "dev", kubeproxy.IPVSDevice)
			p.run("", "ipset", "add", [...]string{"KUBE-IPVS-IPS", "KUBE-6-IPVS-IPS"}[f], ip)
		}
		p.run("", "ipset", "add", [...]string{"KUBE-CLUSTER-IP", "KUBE-6-CLUSTER-IP"}[f], fmt.Sprintf("%s,%s:%d", ip, protocol, daemon.Port))
		option := map[string]string{"tcp": "-t", "udp": "-u", "sctp": "--sctp-service"}[protocol]
		at := net.JoinHostPort(ip, strconv.Itoa(daemon.Port))
		p.run("", "ipvsadm", "-A", option, at, "-s", "rr")
		p.run("", "ipvsadm", "-a", option, at, "-r", endpoint, "-m")
	})
	p.loadKubeProxy(nftBackend, "ipvs")
}
