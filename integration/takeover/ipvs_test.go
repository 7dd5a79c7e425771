package takeover

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/lab/labtest"
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
