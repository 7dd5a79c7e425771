package takeover

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft/kernel/kubeproxy"
)

// sets returns a handle on the machine's ipsets.
func (m *machine) sets() *netlink.Handle {
	m.t.Helper()
	h, err := netlink.NewHandleAt(netns.NsHandle(m.host.FD()), unix.NETLINK_NETFILTER)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(h.Close)
	if _, _, err := h.IpsetProtocol(); err != nil {
		labtest.Lacking(m.t, fmt.Errorf("the kernel lacks ipsets: %w", err))
	}
	return h
}

// addIPSets adds all ipsets of kube-proxy's ipvs mode, empty, and some of other programs. Their
// types are only as close to kube-proxy's as its rules require.
func (m *machine) addIPSets() *netlink.Handle {
	m.t.Helper()
	h := m.sets()
	for _, name := range append(kubeproxy.IPSetNames(), foreignIPSets...) {
		options, kind := netlink.IpsetCreateOptions{Family: unix.AF_INET}, "hash:ip,port"
		if strings.HasPrefix(name, "KUBE-6-") {
			options.Family = unix.AF_INET6
		}
		switch {
		case strings.HasSuffix(name, "-TCP"), strings.HasSuffix(name, "-UDP"), strings.HasSuffix(name, "HEALTH-CHECK-NODE-PORT"):
			options, kind = netlink.IpsetCreateOptions{PortTo: 65535}, "bitmap:port"
		case strings.HasSuffix(name, "LOOP-BACK"):
			kind = "hash:ip,port,ip"
		case strings.HasSuffix(name, "IPVS-IPS"):
			kind = "hash:ip"
		}
		if err := h.IpsetCreate(name, kind, options); err != nil {
			m.t.Fatalf("add ipset %s: %v", name, err)
		}
	}
	return h
}

// foreignIPSets are ipsets of other programs, with names similar to kube-proxy's.
var foreignIPSets = []string{"KUBE-MINE", "KUBE-CLUSTER-IP-2", "kube-router-node-ips", "MY-KUBE-CLUSTER-IP"}

func ipsetNames(t *testing.T, h *netlink.Handle) (names []string) {
	t.Helper()
	all, err := h.IpsetListAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range all {
		names = append(names, set.SetName)
	}
	slices.Sort(names)
	return names
}

func TestIPSetsAreRemovedAfterTheirRules(t *testing.T) {
	m := newMachine(t)
	h := m.addIPSets()
	m.loadKubeProxy(nftBackend, "ipvs")
	m.remove() // not the ipsets, because there is no kube-ipvs0
	if names := ipsetNames(t, h); len(names) != len(kubeproxy.IPSetNames())+len(foreignIPSets) {
		t.Errorf("without %s, left are only the sets %v", kubeproxy.IPVSDevice, names)
	}
	removed, err := kubeproxy.RemoveIPSets(m.host.FD())
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(removed)), slices.Sorted(slices.Values(kubeproxy.IPSetNames()))) {
		t.Errorf("removed sets %v, error %v", removed, err)
	}
	if got, want := ipsetNames(t, h), slices.Sorted(slices.Values(foreignIPSets)); !slices.Equal(got, want) {
		t.Errorf("left are the sets %v, want %v", got, want)
	}
	if removed, err := kubeproxy.RemoveIPSets(m.host.FD()); len(removed) > 0 || err != nil {
		t.Errorf("the second time, removed sets %v, error %v", removed, err)
	}
}

func TestIPSetInUseStaysAndIsNamed(t *testing.T) {
	m := newMachine(t)
	h := m.addIPSets()
	m.run("", "iptables-nft", "-A", "FORWARD", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "ACCEPT")
	removed, err := kubeproxy.RemoveIPSets(m.host.FD())
	if err == nil || !strings.Contains(err.Error(), "KUBE-CLUSTER-IP") {
		t.Errorf("error %v", err)
	}
	if len(removed) != len(kubeproxy.IPSetNames())-1 || slices.Contains(removed, "KUBE-CLUSTER-IP") {
		t.Errorf("removed %v", removed)
	}
	if !slices.Contains(ipsetNames(t, h), "KUBE-CLUSTER-IP") {
		t.Error("an ipset in use was removed")
	}
}

func TestDeviceThatIsNoDummyIsForeign(t *testing.T) {
	m := newMachine(t)
	h := m.addIPSets()
	m.run("", "ip", "link", "add", kubeproxy.IPVSDevice, "type", "veth", "peer", "name", "other")
	if removed := m.remove(); len(removed) > 0 {
		t.Errorf("removed %q", removed)
	}
	m.run("", "ip", "link", "show", kubeproxy.IPVSDevice)
	if names := ipsetNames(t, h); len(names) != len(kubeproxy.IPSetNames())+len(foreignIPSets) {
		t.Errorf("left are only the sets %v", names)
	}
}

func TestIPVSLeftoversAreRemovedWithTheDevice(t *testing.T) {
	m := newMachine(t)
	routes, err := netlink.NewHandleAt(netns.NsHandle(m.host.FD()), unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer routes.Close()
	if err := routes.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: kubeproxy.IPVSDevice}}); err != nil {
		t.Skipf("a dummy device cannot be had here: %v", err)
	}
	h := m.addIPSets()
	m.loadKubeProxy(nftBackend, "ipvs")
	removed := strings.Join(m.remove(), "\n")
	for _, what := range []string{"device " + kubeproxy.IPVSDevice, "KUBE-6-CLUSTER-IP", "ip6 nat: jumps (3), "} {
		if !strings.Contains(removed, what) {
			t.Errorf("removed\n%s\nwithout %q", removed, what)
		}
	}
	if _, err := routes.LinkByName(kubeproxy.IPVSDevice); err == nil {
		t.Errorf("%s still exists", kubeproxy.IPVSDevice)
	}
	if names := ipsetNames(t, h); len(names) != len(foreignIPSets) {
		t.Errorf("left are the sets %v", names)
	}
	m.expectNothingToRemove()
}
