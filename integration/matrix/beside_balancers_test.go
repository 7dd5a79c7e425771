package matrix

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// eachAddress calls do for each load balancer IP of the Services that are tested.
func (s *scene) eachAddress(do func(f model.Family, a netip.Addr)) {
	s.t.Helper()
	for _, v := range besideServices(s.t, readEndpoints()) {
		for _, f := range model.Families {
			do(f, vip.at(f, v.Number).Addr())
		}
	}
}

// TestBesideKubeVIP has load balancer IPs on the node's interface, as kube-vip adds them to
// the node that it elects. The kernel may use them for what it masquerades over IPv6.
func TestBesideKubeVIP(t *testing.T) {
	loaded := false
	beside(t, program{sameStart: true, load: func(s *scene) {
		s.eachAddress(func(f model.Family, a netip.Addr) {
			address := netip.PrefixFrom(a, a.BitLen())
			if loaded {
				s.command("", "ip", "address", "replace", address.String(), "dev", "eth0")
				return
			}
			s.nodeAddrs = append(s.nodeAddrs, a)
			s.must(s.Remote.AddRoute(address, nodeAddr(f)))
			s.must(s.Node.AddAddress(a))
		})
		loaded = true
	}})
}

// TestBesideMetalLB has a router that looks for load balancer IPs on its link. MetalLB's
// announcer of L2 mode answers it if it was built; otherwise the router knows what it would
// answer, the node's link-layer address.
func TestBesideMetalLB(t *testing.T) {
	announcer, err := filepath.Abs(filepath.Join(otherPrograms, "bin", "announce"))
	if err == nil {
		_, err = os.Stat(announcer)
	}
	loaded := false
	beside(t, program{sameStart: true, announces: true, load: func(s *scene) {
		if loaded {
			return
		}
		loaded = true
		// Not from /sys, which shows the interfaces of another network namespace.
		link := strings.Fields(s.command("", "ip", "-brief", "link", "show", "dev", "eth0"))[2]
		var addresses []string
		s.eachAddress(func(_ model.Family, a netip.Addr) {
			addresses = append(addresses, a.String())
			s.ipOutside("route", "replace", netip.PrefixFrom(a, a.BitLen()).String(), "dev", "eth0")
			if err != nil {
				s.ipOutside("neighbor", "replace", a.String(), "lladdr", link, "dev", "eth0")
			}
		})
		if err == nil {
			announce := s.Node.Command(s.t.Context(), announcer, addresses...)
			s.must(announce.Start())
			s.t.Cleanup(func() { _ = announce.Process.Kill(); _ = announce.Wait() })
		}
	}})
}

func (s *scene) ipOutside(args ...string) {
	s.t.Helper()
	labtest.Run(s.t, s.Outside, "", "ip", args...)
}
