package affinity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
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
// translated. For comparison it does so without our rules that restore priorities, too.
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
	nft := func(args ...string) string {
		t.Helper()
		out, err := l.Node.Command(t.Context(), "nft", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("nft %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
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
			nft("flush chain ip kube-vmap restore-check; flush chain ip6 kube-vmap restore-check")
		}
		for _, w := range daemon.Transports() {
			seen, leaked := count(func() {
				for _, c := range allClients(l, w.Family) {
					checkOneEndpoint(t, l, c, w, s)
				}
			})
			if seen == 0 || restored == (leaked > 0) {
				t.Errorf("%s, restored %t: %d of %d packets have the number of an endpoint", w, restored, leaked, seen)
			}
			seen, leaked = count(func() {
				to := netip.AddrPortFrom(l.Node.Addr(w.Family), own)
				got, err := l.Outside.AskFresh(w.Protocol, netip.Addr{}, to, time.Second/2)
				if restored && (err != nil || got.By != l.Node.Name) {
					t.Errorf("%s: %s, %v", w, got, err)
				}
			})
			// Without our rules it is forwarded, for which IPv4 sets the priority itself.
			if seen == 0 || restored && leaked > 0 || !restored && leaked == 0 && w.Family == model.IPv6 {
				t.Errorf("%s, not translated, restored %t: %d of %d packets have the number of an endpoint", w, restored, leaked, seen)
			}
		}
	}
}

// A client is a host and one of its addresses.
type client struct {
	host *lab.Host
	addr netip.Addr
}

// allClients returns clients of all kinds: pods with and without endpoints, the node, and
// some outside.
func allClients(l *lab.Lab, f model.Family) []client {
	all := []client{{l.Node.Host, netip.Addr{}}, {l.Outside, netip.Addr{}}}
	for _, pod := range l.Pods {
		all = append(all, client{pod.Host, netip.Addr{}})
	}
	for n := range 10 {
		all = append(all, client{l.Outside, daemon.ClientAddr(f, n)})
	}
	return all
}

// checkOneEndpoint connects twice to each address of a Service, which must lead to the same
// endpoint.
func checkOneEndpoint(t *testing.T, l *lab.Lab, c client, w daemon.Transport, s daemon.Service) {
	t.Helper()
	by := ""
	for _, k := range slices.Concat(daemon.Kinds, daemon.Kinds) {
		got, err := ask(c.host, c.addr, w, s.AddrPort(l.Node, w.Family, k, 0))
		if err != nil || by != "" && got != by {
			t.Fatalf("%s %s: endpoint %s, but at the %s %s, %v", c.host, c.addr, by, k, got, err)
		}
		by = got
	}
}

// TestFirstConnectionsOfAClientGetTheSameEndpoint has new clients with several connections
// at the same time.
func TestFirstConnectionsOfAClientGetTheSameEndpoint(t *testing.T) {
	t.Parallel()
	const connections = 4
	l, servers := daemon.NewLab(t, 4, 2)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Affinity: long}
	f.Put("web", s)
	daemon.Start(t, l.Node, f)
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		to := s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0)
		for n := range 100 {
			var by [connections]string
			var group errgroup.Group
			for i := range by {
				group.Go(func() (err error) {
					by[i], err = ask(l.Outside, daemon.ClientAddr(w.Family, n), w, to)
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			for _, other := range by[1:] {
				if other != by[0] {
					t.Fatalf("client %d got %v", n, by)
				}
			}
		}
	})
}
