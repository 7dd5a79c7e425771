package affinity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// countingTable counts packets whose priority is the number of an endpoint, where they leave
// the node or are received by it.
const countingTable = `table inet priorities {
	counter leaked { }
	counter seen { }
	chain numbers {
		counter name "seen"
		meta priority & f000:0 == f000:0 counter name "leaked"
	}
	chain output { type filter hook output priority 0; ct state new jump numbers; }
	chain forward { type filter hook forward priority 0; ct state new jump numbers; }
	chain input { type filter hook input priority 0; ct state new jump numbers; }
}`

// TestPriorityOfPacketsIsRestored counts packets that are forwarded, and those that the node
// itself sends; also to an endpoint that has the address of its Service, so that nothing is
// translated. For comparison it counts without our rules that restore priorities, too.
func TestPriorityOfPacketsIsRestored(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 3, 2)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Affinity: long, Kinds: daemon.Kinds}
	const own = 9000
	if err := l.Node.ServeAll(own); err != nil {
		t.Fatal(err)
	}
	self := daemon.Service{
		Name: "self", Number: 2, Endpoints: []*lab.Host{l.Node.Host}, Affinity: long, ServicePorts: daemon.EveryProtocol("", own, own, 0),
		Edit: func(o *corev1.Service) {
			for _, f := range model.Families {
				o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, l.Node.Addr(f).String())
			}
		},
	}
	f.Put("web", s, self)
	d := daemon.Start(t, l.Node, f, "--protect-tables=false")
	nft := func(command string) string { t.Helper(); return labtest.Run(t, l.Node.Host, "", "nft", command) }
	nft(countingTable)
	// count connects clients, and returns how many packets were seen, and how many of them
	// had a number.
	count := func(connect func()) (seen, leaked int) {
		t.Helper()
		nft("reset counters table inet priorities")
		connect()
		for name, n := range map[string]*int{"seen": &seen, "leaked": &leaked} {
			_, after, _ := strings.Cut(nft("list counter inet priorities "+name), "packets ")
			if _, err := fmt.Sscan(after, n); err != nil {
				t.Fatal(err)
			}
		}
		return seen, leaked
	}
	for _, restored := range []bool{true, false} {
		if !restored {
			d.Stop()
			nft("flush chain ip kube-vmap loop-check; flush chain ip kube-vmap restore-check; " +
				"flush chain ip6 kube-vmap loop-check; flush chain ip6 kube-vmap restore-check")
		}
		for _, w := range daemon.Transports() {
			seen, leaked := count(func() {
				for _, from := range []*lab.Host{l.Node.Host, l.Outside, l.Pods[0].Host, l.Pods[2].Host} {
					checkOneEndpoint(t, l, from, w, s)
				}
			})
			if seen == 0 || restored == (leaked > 0) {
				t.Errorf("%s, restored %t: %d of %d packets have the number of an endpoint", w, restored, leaked, seen)
			}
			if !restored {
				continue
			}
			seen, leaked = count(func() {
				if by, err := ask(l.Outside, netip.Addr{}, w, netip.AddrPortFrom(l.Node.Addr(w.Family), own)); err != nil || by != l.Node.Name {
					t.Errorf("%s: %s, %v", w, by, err)
				}
			})
			if seen == 0 || leaked > 0 {
				t.Errorf("%s, not translated: %d of %d packets have the number of an endpoint", w, leaked, seen)
			}
		}
	}
}

// checkOneEndpoint connects twice to each address of a Service, which must lead to the same
// endpoint.
func checkOneEndpoint(t *testing.T, l *lab.Lab, from *lab.Host, w daemon.Transport, s daemon.Service) {
	t.Helper()
	by := ""
	for _, k := range slices.Concat(daemon.Kinds, daemon.Kinds) {
		got, err := ask(from, netip.Addr{}, w, s.AddrPort(l.Node, w.Family, k, 0))
		if err != nil || by != "" && got != by {
			t.Fatalf("%s: endpoint %s, but at the %s %s, %v", from, by, k, got, err)
		}
		by = got
	}
}
