package takeover

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/kubeproxy"
)

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
