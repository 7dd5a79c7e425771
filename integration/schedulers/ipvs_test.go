package schedulers

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
)

// TestRolloutComparedWithIPVS runs the same rollout of TCP connections with the scheduler
// lc of the kernel's IPVS, and with schedulers of kube-vmap.
func TestRolloutComparedWithIPVS(t *testing.T) {
	if os.Getenv("KUBE_VMAP_OWN_MACHINE") == "" {
		t.Skip("SKIPPED, NOTHING TESTED: this needs IPVS, and a machine of its own; `make test-kernels` has some")
	}
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			byIPVS := rolloutByIPVS(t, f)
			t.Logf("IPVS lc: max/mean %.3f", byIPVS)
			byShares, atRandom := newProxyRollout(t, f, "lc").run(t), newProxyRollout(t, f, "random").run(t)
			t.Logf("kube-vmap: max/mean with lc %.3f, with random %.3f", byShares, atRandom)
			if byShares > 1.1*byIPVS {
				t.Errorf("max/mean with lc %.3f, want at most 10 %% more than %.3f", byShares, byIPVS)
			}
		})
	}
}

// rolloutByIPVS returns how uneven a rollout ends with IPVS.
func rolloutByIPVS(t *testing.T, f model.Family) float64 {
	t.Helper()
	l, endpoints := newRolloutLab(t)
	v := newIPVS(t, l.Node, f)
	return newRollout(l, endpoints, v.at, v.setEndpoints).run(t)
}

// newProxyRollout returns a rollout with a scheduler of kube-vmap.
func newProxyRollout(t *testing.T, f model.Family, scheduler string) *rollout {
	t.Helper()
	l, endpoints := newRolloutLab(t)
	folder := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Scheduler: scheduler}
	folder.Put("web", s)
	proxy := daemon.Start(t, l.Node, folder)
	applied := 0 // endpoints of the rules
	return newRollout(l, endpoints, s.ClusterAddrPort(f), func(hosts []*lab.Host) {
		s.Endpoints = hosts
		before := proxy.Log.Len()
		folder.Put("web", s)
		// Changes of shares are applied, too.
		e := proxy.Logged(before, "applied", func(e process.Entry) bool { return e.Number("endpoints") != applied })
		applied = e.Number("endpoints")
	})
}

// ipvs is a virtual server of the kernel's IPVS with the scheduler lc.
type ipvs struct {
	t       *testing.T
	node    *lab.Node
	family  model.Family
	at      netip.AddrPort
	weights map[netip.AddrPort]int
}

// newIPVS creates a virtual server at an address that becomes one of the node's own.
func newIPVS(t *testing.T, node *lab.Node, f model.Family) *ipvs {
	t.Helper()
	v := &ipvs{t, node, f, daemon.Service{Number: 1}.ClusterAddrPort(f), map[netip.AddrPort]int{}}
	v.command("ip", "address", "add", v.at.Addr().String(), "dev", "lo")
	v.command("ipvsadm", "-A", "-t", v.at.String(), "-s", "lc")
	return v
}

// setEndpoints gives weight 1 to these hosts and 0 to others, as kube-proxy does to keep
// their connections.
func (v *ipvs) setEndpoints(hosts []*lab.Host) {
	wanted := map[netip.AddrPort]int{}
	for at := range v.weights {
		wanted[at] = 0
	}
	for _, h := range hosts {
		wanted[h.AddrPort(v.family, daemon.TargetPort)] = 1
	}
	for at, weight := range wanted {
		had, known := v.weights[at]
		if known && had == weight {
			continue
		}
		action := "-a"
		if known {
			action = "-e"
		}
		v.command("ipvsadm", action, "-t", v.at.String(), "-r", at.String(), "-m", "-w", fmt.Sprint(weight))
	}
	v.weights = wanted
}

func (v *ipvs) command(name string, args ...string) {
	v.t.Helper()
	if out, err := v.node.Command(v.t.Context(), name, args...).CombinedOutput(); err != nil {
		v.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
