package forward

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// patience is the timeout of a question that must be answered, short of one that
	// must not.
	patience = 5 * time.Second
	short    = 300 * time.Millisecond
)

// servicePorts is the number of ports of the Service.
const servicePorts = 2

// scene is a lab of three nodes with kube-vmap and a Service. node-1 has no endpoint.
type scene struct {
	t       testing.TB
	lab     *lab.Lab
	folder  *daemon.Folder
	service daemon.Service
	proxies []*daemon.Daemon
	// at are other addresses of the Service than those of a load balancer.
	at [2]netip.Addr
}

// newScene builds a lab, with a Service under Local or Cluster policy.
func newScene(t testing.TB, local bool) *scene {
	t.Helper()
	l := labtest.New(t, lab.Options{RemotePods: 2, ThirdPods: 2})
	daemon.AddClients(t, l)
	s := &scene{t: t, lab: l, folder: daemon.NewFolder(t, l), service: daemon.Service{
		Name: "web", Number: 1, Kinds: []model.Kind{model.KindLoadBalancerIP}, LocalOutside: local, Ports: servicePorts,
	}}
	daemon.Serve(t, 1, s.pods()...)
	s.put(s.pods()...)
	for _, n := range l.Nodes() {
		s.proxies = append(s.proxies, daemon.Start(t, n, s.folder))
	}
	s.routeTo(l.Node)
	return s
}

// newForwarding is newScene under Local policy with the trial's rules.
func newForwarding(t testing.TB, o options) *scene {
	t.Helper()
	s := newScene(t, true)
	s.program(o)
	s.pick(s.lab.Nodes(), s.pods()...)
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) pods() []*lab.Pod { return slices.Concat(s.lab.RemotePods, s.lab.ThirdPods) }

// put makes pods the endpoints.
func (s *scene) put(pods ...*lab.Pod) {
	s.t.Helper()
	s.service.Endpoints = nil
	for _, p := range pods {
		s.service.Endpoints = append(s.service.Endpoints, p.Host)
	}
	s.folder.Put("web", s.service)
}

// routeTo makes the router send packets of clients to a node, as if ECMP had chosen it.
func (s *scene) routeTo(n *lab.Node) { s.t.Helper(); daemon.RouteServices(s.t, s.lab, n) }

// frontend returns the first port of the Service.
func (s *scene) frontend(f model.Family) netip.AddrPort { return s.frontends(f)[0].AddrPort }

// ask asks from a port of a client outside.
func (s *scene) ask(t testing.TB, w daemon.Transport, port uint16, timeout time.Duration) lab.Answer {
	t.Helper()
	from := netip.AddrPortFrom(daemon.ClientAddr(w.Family, 0), port)
	a, err := s.lab.Outside.AskFrom(w.Protocol, from, s.frontend(w.Family), timeout)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// connect opens a connection of a client outside, which must be answered. It returns who
// answers.
func (s *scene) connect(t testing.TB, w daemon.Transport) (*lab.Flow, string) {
	t.Helper()
	from := netip.AddrPortFrom(daemon.ClientAddr(w.Family, 0), s.lab.Outside.FreshPort())
	flow, err := s.lab.Outside.Flow(w.Protocol, from, s.frontend(w.Family))
	if err != nil {
		t.Fatal(err)
	}
	a := again(t, flow, patience)
	if a.Outcome != lab.Answered {
		t.Fatalf("%s from %s: %s", w, from, a)
	}
	return flow, a.By
}

// again asks over an established connection.
func again(t testing.TB, flow *lab.Flow, timeout time.Duration) lab.Answer {
	t.Helper()
	a, err := flow.Ask(timeout)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// maglev returns the table of endpoints.
func maglev(endpoints []netip.AddrPort) []netip.AddrPort {
	endpoints = slices.SortedFunc(slices.Values(endpoints), netip.AddrPort.Compare)
	return model.MaglevTable(endpoints, nil, model.MaglevTableSize)
}

// run runs a command on a host.
func run(t testing.TB, h *lab.Host, line string) string {
	t.Helper()
	words := strings.Fields(line)
	out, err := h.Command(t.Context(), words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s on %s: %v\n%s", line, h, err, out)
	}
	return string(out)
}

// set writes a sysctl of the network.
func (s *scene) set(h *lab.Host, key, value string) {
	s.t.Helper()
	s.must(h.Do(func() error { return os.WriteFile("/proc/sys/net/"+key, []byte(value), 0) }))
}

// watch counts the packets of the frontend that leave a node by the link outside.
func (s *scene) watch() {
	s.t.Helper()
	text := "table netdev watch {\ncounter forwarded { }\ncounter replies { }\nchain egress {\n" +
		"type filter hook egress devices = { eth0 } priority 0; policy accept;\n"
	for _, f := range model.Families {
		text += fmt.Sprintf("%[1]s daddr %[2]s counter name forwarded\n%[1]s saddr %[2]s counter name replies\n",
			families[f].Name, s.frontend(f).Addr())
	}
	for _, n := range s.lab.Nodes() {
		nft(s.t, n.Host, text+"}\n}\n")
	}
}

// count returns a counter of watch, and resets it.
func count(t testing.TB, n *lab.Node, name string) (packets int) {
	t.Helper()
	out := nft(t, n.Host, "reset counter netdev watch "+name)
	_, rest, _ := strings.Cut(out, "packets ")
	if _, err := fmt.Sscan(rest, &packets); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return packets
}

// forget empties connection tracking on the nodes.
func (s *scene) forget(t testing.TB) {
	t.Helper()
	for _, n := range s.lab.Nodes() {
		err := n.Do(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tracked returns how many connections to the frontend a node tracks.
func (s *scene) tracked(n *lab.Node) (found int) {
	s.t.Helper()
	s.must(n.Do(func() error {
		for _, f := range model.Families {
			all, err := netlink.ConntrackTableList(netlink.ConntrackTable, [2]netlink.InetFamily{unix.AF_INET, unix.AF_INET6}[f])
			if err != nil {
				return err
			}
			for _, c := range all {
				if c.Forward.DstIP.Equal(s.frontend(f).Addr().AsSlice()) {
					found++
				}
			}
		}
		return nil
	}))
	return found
}
