package takeover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/kubeproxy"
)

// TestTakeoverFromIPVS has clients open connections all the time through virtual servers of the
// kernel's IPVS, set up as kube-proxy's ipvs mode does. Our rules take new connections over
// and give them back, and in the end IPVS is removed. Connections live on until then.
func TestTakeoverFromIPVS(t *testing.T) {
	needIPVS(t)
	s := newScene(t, func(*machine) {})
	var servers []virtualServer
	for _, f := range frontends {
		server := virtualServer{protocol: f.protocol, at: f.at}
		for _, pod := range s.pods[:2] {
			server.endpoints = append(server.endpoints, pod.AddrPort(model.FamilyOf(f.at.Addr()), f.at.Port()))
		}
		servers = append(servers, server)
	}
	s.addIPVS(servers...)
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

func needIPVS(t *testing.T) {
	t.Helper()
	if os.Getenv("KUBE_VMAP_OWN_MACHINE") == "" {
		t.Skip("SKIPPED, NOTHING TESTED: this needs IPVS, and a machine of its own; `make test-kernels` has some")
	}
}

// TestTakeoverFromIPVSCanBeUndone runs the program: a probation that fails, while clients
// connect all the time, and one that passes.
func TestTakeoverFromIPVSCanBeUndone(t *testing.T) {
	needIPVS(t)
	p := newProbationer(t)
	var servers []virtualServer
	p.forwards(func(_ model.Family, protocol, ip, endpoint string) {
		server := virtualServer{at: netip.AddrPortFrom(netip.MustParseAddr(ip), daemon.Port), endpoints: []netip.AddrPort{netip.MustParseAddrPort(endpoint)}}
		for _, one := range model.Protocols {
			if one.String() == protocol {
				server.protocol = one
			}
		}
		servers = append(servers, server)
	})
	p.addIPVS(servers...)
	theirs := counts.ReplaceAllString(p.listing(nftBackend)+p.servers(), "")
	load := clients.Start(t, p.lab, p.services[:1], clients.Options{Pod: p.lab.Pods[2], Pace: 20 * time.Millisecond, AllFlows: true})
	d := p.start()
	d.AwaitMessage(suspendedMessage)
	p.expect("in the probation", nftBackend, true, true, true, "probation until=")
	p.run(p.fault(), "nft", "-f", "-")
	p.awaitReturn(d)
	p.expect("when returned", nftBackend, true, false, false, "returned at=")
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

// expectRemoval removes everything of kube-proxy, and checks that nothing is left.
func (s *scene) expectRemoval() {
	s.t.Helper()
	removed := strings.Join(s.remove(), "\n")
	for _, what := range []string{"virtual servers of IPVS (6)", "ipsets ", "KUBE-6-CLUSTER-IP", "device " + kubeproxy.IPVSDevice, "ip nat: jumps (3)", "ip6 nat: jumps (3)"} {
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

// A virtualServer is a Service port with its endpoints.
type virtualServer struct {
	protocol  model.Protocol
	at        netip.AddrPort
	endpoints []netip.AddrPort
}

// addIPVS sets up what kube-proxy's ipvs mode has for Service ports
// (pkg/proxy/ipvs/proxier.go of Kubernetes 1.36).
func (m *machine) addIPVS(servers ...virtualServer) {
	m.t.Helper()
	h := m.addIPSets()
	m.run("", "ip", "link", "add", kubeproxy.IPVSDevice, "type", "dummy")
	m.run("", "ip", "link", "set", kubeproxy.IPVSDevice, "up")
	m.run("", "ipvsadm", "-C") // loads the module
	m.onHost(func() error {
		return errors.Join(
			sysctl("ipv4/vs/conntrack", "1"), sysctl("ipv4/vs/conn_reuse_mode", "0"),
			sysctl("ipv4/vs/expire_nodest_conn", "1"), sysctl("ipv4/vs/expire_quiescent_template", "1"),
			sysctl("ipv4/conf/all/arp_ignore", "1"), sysctl("ipv4/conf/all/arp_announce", "2"),
		)
	})
	added := map[netip.Addr]bool{}
	for _, s := range servers {
		family := model.FamilyOf(s.at.Addr())
		ip := net.IP(s.at.Addr().AsSlice())
		if !added[s.at.Addr()] {
			added[s.at.Addr()] = true
			m.run("", "ip", "address", "add", s.at.Addr().String(), "dev", kubeproxy.IPVSDevice)
			m.addToSet(h, [...]string{"KUBE-IPVS-IPS", "KUBE-6-IPVS-IPS"}[family], &netlink.IPSetEntry{IP: ip})
		}
		protocol, port := protocols[s.protocol], s.at.Port()
		m.addToSet(h, [...]string{"KUBE-CLUSTER-IP", "KUBE-6-CLUSTER-IP"}[family],
			&netlink.IPSetEntry{IP: ip, Protocol: &protocol.number, Port: &port})
		m.run("", "ipvsadm", "-A", protocol.option, s.at.String(), "-s", "rr")
		for _, e := range s.endpoints {
			m.run("", "ipvsadm", "-a", protocol.option, s.at.String(), "-r", e.String(), "-m")
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
