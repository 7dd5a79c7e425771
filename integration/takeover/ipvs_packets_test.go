package takeover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/kubeproxy"
	"kube-vmap/nft/kernel/kubeproxy/ipvs"
)

// TestTakeoverFromIPVS has clients open connections all the time through virtual servers of the
// kernel's IPVS, set up as kube-proxy's ipvs mode does. Our rules take new connections over
// and give them back, and in the end IPVS is removed. Connections live on until then.
func TestTakeoverFromIPVS(t *testing.T) {
	if os.Getenv("KUBE_VMAP_OWN_MACHINE") == "" {
		t.Skip("SKIPPED, NOTHING TESTED: this needs IPVS, and a machine of its own; `make test-kernels` has some")
	}
	s := newScene(t, func(m *machine) { m.addIPVS() })
	s.expect("before", false)
	if modes := s.find().Modes(); len(modes) != 1 || modes[0] != kubeproxy.ModeIPVS {
		t.Errorf("found modes %q", modes)
	}
	before := s.listing(nftBackend) + s.servers()

	ctx, stop := context.WithCancel(t.Context())
	nodeCtx, stopNode := context.WithCancel(ctx)
	var clients, node errgroup.Group
	var asked atomic.Int64
	s.everywhere(func(from *lab.Host, f frontend) {
		if from == s.host {
			node.Go(func() error { return askAllTheTime(nodeCtx, from, f, &asked) })
		} else {
			clients.Go(func() error { return askAllTheTime(ctx, from, f, &asked) })
		}
	})
	theirs := s.open()
	s.apply(append(s.ours, s.find().Suspend()...))
	s.expect("in probation", true)
	s.check("in probation", theirs)
	ours := s.open()
	s.apply(append(s.find().Resume(), deleteOurs...))
	s.expect("after going back", false)
	s.check("after going back", theirs)
	s.check("after going back", ours)
	same(t, "rules and virtual servers before probation and after going back",
		counts.ReplaceAllString(s.listing(nftBackend)+s.servers(), ""), counts.ReplaceAllString(before, ""))
	closeFlows(t, ours)

	s.apply(append(s.ours, s.find().Suspend()...))
	s.expect("in probation again", true)
	s.check("in probation again", theirs)
	ours = s.open()
	stopNode()
	if err := node.Wait(); err != nil {
		t.Error(err)
	}
	s.expectRemoval()
	s.expect("after the removal", true)
	// The source of the node's own connections is the Service's address, which is gone.
	s.check("after the removal", slices.DeleteFunc(slices.Clone(ours), func(f flow) bool { return f.from == s.host }))
	stop()
	if err := clients.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d connections", asked.Load())
	closeFlows(t, theirs)
	closeFlows(t, ours)
}

// expectRemoval removes everything of kube-proxy, and checks that nothing is left.
func (s *scene) expectRemoval() {
	s.t.Helper()
	removed := strings.Join(s.remove(), "\n")
	for _, what := range []string{"virtual servers of IPVS (6)", "ipsets ", "KUBE-6-CLUSTER-IP", "device " + ipvs.Device, "ip nat: jumps (3)", "ip6 nat: jumps (3)"} {
		if !strings.Contains(removed, what) {
			s.t.Errorf("removed\n%s\nwithout %q", removed, what)
		}
	}
	if left := s.servers(); left != "" {
		s.t.Errorf("left are virtual servers\n%s", left)
	}
	if names := ipsetNames(s.t, s.sets()); len(names) != len(foreignIPSets) {
		s.t.Errorf("left are the sets %v", names)
	}
	if found := s.find(); len(found.Parts) > 0 || found.IPVS {
		s.t.Errorf("left is %+v", found)
	}
	s.expectNothingToRemove()
}

// servers returns the virtual servers, as ipvsadm saves them.
func (m *machine) servers() string {
	m.t.Helper()
	return m.run("", "ipvsadm", "-S", "-n")
}

// addIPVS sets up what kube-proxy's ipvs mode has for the frontends, with pod-1 and pod-2 as
// endpoints (pkg/proxy/ipvs/proxier.go of Kubernetes 1.36).
func (m *machine) addIPVS() {
	m.t.Helper()
	h := m.addIPSets()
	m.run("", "ip", "link", "add", ipvs.Device, "type", "dummy")
	m.run("", "ip", "link", "set", ipvs.Device, "up")
	m.run("", "ipvsadm", "-C") // loads the module
	m.onHost(func() error {
		return errors.Join(
			sysctl("ipv4/vs/conntrack", "1"), sysctl("ipv4/vs/conn_reuse_mode", "0"),
			sysctl("ipv4/vs/expire_nodest_conn", "1"), sysctl("ipv4/vs/expire_quiescent_template", "1"),
			sysctl("ipv4/conf/all/arp_ignore", "1"), sysctl("ipv4/conf/all/arp_announce", "2"),
		)
	})
	added := map[string]bool{}
	for _, f := range frontends {
		family := model.FamilyOf(f.at.Addr())
		if host := f.at.Addr().String(); !added[host] {
			added[host] = true
			m.run("", "ip", "address", "add", host, "dev", ipvs.Device)
			m.addToSet(h, [...]string{"KUBE-IPVS-IPS", "KUBE-6-IPVS-IPS"}[family], &netlink.IPSetEntry{IP: net.IP(f.at.Addr().AsSlice())})
		}
		protocol, port := protocols[f.protocol], f.at.Port()
		m.addToSet(h, [...]string{"KUBE-CLUSTER-IP", "KUBE-6-CLUSTER-IP"}[family],
			&netlink.IPSetEntry{IP: net.IP(f.at.Addr().AsSlice()), Protocol: &protocol.number, Port: &port})
		m.run("", "ipvsadm", "-A", protocol.option, f.at.String(), "-s", "rr")
		for _, pod := range []string{"2", "3"} {
			endpoint := [...]string{"10.244.1." + pod, "[fd00:10:244:1::" + pod + "]"}[family]
			m.run("", "ipvsadm", "-a", protocol.option, f.at.String(), "-r", fmt.Sprintf("%s:%d", endpoint, port), "-m")
		}
	}
	m.loadKubeProxy(nftBackend, "ipvs")
}

// protocols are the numbers of protocols, and their options of ipvsadm.
var protocols = map[model.Protocol]struct {
	number uint8
	option string
}{
	model.TCP: {unix.IPPROTO_TCP, "-t"}, model.UDP: {unix.IPPROTO_UDP, "-u"}, model.SCTP: {unix.IPPROTO_SCTP, "--sctp-service"},
}

func (m *machine) addToSet(h *netlink.Handle, name string, entry *netlink.IPSetEntry) {
	m.t.Helper()
	if err := h.IpsetAdd(name, entry); err != nil {
		m.t.Fatalf("add to ipset %s: %v", name, err)
	}
}

// sysctl writes a setting of the calling thread's network namespace.
func sysctl(key, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0)
}
