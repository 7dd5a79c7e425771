package takeover

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/kubeproxy"
)

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
